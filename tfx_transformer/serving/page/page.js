// The page: asks which models are served, and shows a panel for each kind of them.

import { AccessError, sendJson, setToken } from "./api.js";
import { textToImage } from "./draw.js";
import { captioner, classifier } from "./images.js";
import { element } from "./panel.js";
import { generator, textClassifier } from "./texts.js";
import { translator } from "./translate.js";

const PANELS = {
  translator, classifier, captioner, text_classifier: textClassifier, generator, text_to_image: textToImage,
};
const WAIT = 1000; // milliseconds until the server is asked again while models are loaded

const state = document.getElementById("state");
const nav = document.querySelector("nav");
const area = document.getElementById("panels");
const access = document.getElementById("access");
const panels = {}; // by kind

async function start() {
  try {
    const { models } = await sendJson("models");
    access.hidden = true;
    const ready = models.filter((model) => model.state === "AVAILABLE");
    for (const [kind, make] of Object.entries(PANELS)) {
      const own = ready.filter((model) => model.kind === kind);
      if (panels[kind]) panels[kind].offer(own.length ? own : panels[kind].models);
      else if (own.length) show(kind, (panels[kind] = make(own)));
    }
    const loading = models.filter((model) => ["START", "LOADING"].includes(model.state));
    const names = loading.map((model) => model.name).join(", ");
    say(names ? `Loading ${names} …` : models.length ? "" : "This server has no models.");
    if (loading.length) setTimeout(start, WAIT);
  } catch (error) {
    access.hidden = !(error instanceof AccessError);
    say(error.message);
  }
}

/** Adds a panel, in the order of PANELS, and a link to it if there are several. */
function show(kind, panel) {
  const kinds = Object.keys(PANELS), next = kinds.slice(kinds.indexOf(kind) + 1);
  const place = next.map((name) => panels[name]?.section).find(Boolean);
  area.insertBefore(panel.section, place ?? null);
  nav.replaceChildren(...[...area.children].map((section) => {
    const { textContent } = section.querySelector("h2");
    return element("a", { href: `#${section.id}`, textContent });
  }));
  nav.hidden = area.children.length < 2;
}

function say(message) {
  state.textContent = message;
  state.hidden = !message;
}

access.addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(document.getElementById("token").value);
  start();
});
start();
