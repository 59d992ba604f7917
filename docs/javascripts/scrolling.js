// What is wider than the page and scrolls can be reached, and scrolled, by the keyboard.
(function () {
  "use strict";
  var WIDE = ".md-typeset__scrollwrap, .md-typeset div.formula, .md-typeset p:has(> img[alt^='figure '])";

  function reach(boxes) {
    boxes.forEach(function (box) {
      if (box.target.scrollWidth > box.target.clientWidth) box.target.tabIndex = 0;
      else box.target.removeAttribute("tabindex");
    });
  }

  var observer = new ResizeObserver(reach);
  window.addEventListener("load", function () { // tables have got their wraps
    document.querySelectorAll(WIDE).forEach(function (box) { observer.observe(box); });
  });
})();
