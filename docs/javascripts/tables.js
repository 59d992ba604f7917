// Long tables: a box to scroll in, whose header stays, and above it a filter with the number of rows.
// A row is shown if it has every word of the filter. Escape empties the filter.
(function () {
  "use strict";
  var LONG = 20;

  function words(text) {
    return text.toLowerCase().split(/\s+/).filter(Boolean);
  }

  function filtered(table, number) {
    var rows = Array.from(table.tBodies[0].rows);
    var texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
    var line = document.createElement("p");
    var label = document.createElement("label");
    var input = document.createElement("input");
    var count = document.createElement("output");
    input.type = "search";
    input.id = "filter-" + number;
    label.htmlFor = count.htmlFor = input.id;
    label.textContent = "Filter";
    line.className = "filter";
    line.append(label, input, count);

    function show() {
      var wanted = words(input.value), shown = 0;
      rows.forEach(function (row, at) {
        row.hidden = !wanted.every(function (word) { return texts[at].includes(word); });
        shown += !row.hidden;
      });
      count.textContent = (wanted.length ? shown + " of " : "") + rows.length + " rows";
    }

    input.addEventListener("input", show);
    input.addEventListener("keydown", function (event) {
      event.stopPropagation(); // the site's own keys, such as / and n
      if (event.key === "Escape") {
        input.value = "";
        show();
      }
    });
    show();
    return line;
  }

  function boxed(table) {
    var box = document.createElement("div");
    box.className = "long";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "table: " + table.tHead.textContent.trim().split(/\s*\n\s*/).join(", "));
    table.replaceWith(box);
    box.append(table);
    return box;
  }

  document.querySelectorAll(".md-typeset table:not([class])").forEach(function (table, number) {
    if (table.tHead && table.tBodies.length && table.tBodies[0].rows.length >= LONG) {
      var box = boxed(table);
      box.before(filtered(table, number));
    }
  });
})();
