// The page of a search that Python wrote into it.

import { unpacked } from "./packed.js";
import { listen, showAbout, showSearches } from "./search_player.js";

listen();
showSearches(await unpacked("data"));
showAbout();
