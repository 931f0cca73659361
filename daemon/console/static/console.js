// Every page is complete without this script.
"use strict";
