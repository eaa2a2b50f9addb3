// Translation while you type, with the n-best list and the alignment of words.

import { sendJson } from "./api.js";
import { Panel, element, percent } from "./panel.js";
import { Words, joinWeights, joinWords } from "./words.js";

const HINT = "Point at a word, or tap it: its partners light up.";

export function translator(models) {
  const panel = new Panel("translator", models);
  const alignment = new Alignment(panel);
  panel.whenTyped(async (signal, text) => {
    const clear = () => {
      panel.part("result").textContent = "";
      panel.say("");
      panel.showBest([]);
      alignment.hide();
    };
    if (!text) return clear();
    const { name, explains } = panel.model;
    const n_best = panel.nBest;
    const body = { text, n_best, model: name, alignment: explains, attention: explains };
    const { translations: [found] } = await sendJson("translate", body, signal);
    panel.part("result").textContent = found.text;
    panel.say(found.truncated ? "The text was too long for the model: its end was left out." : "");
    panel.showBest(found.n_best ?? []);
    if (explains && found.attention?.length) alignment.show(found);
    else alignment.hide();
  });
  return panel;
}

class Alignment {
  constructor(panel) {
    this.area = panel.part("alignment");
    this.table = panel.part("table");
    this.partners = panel.part("partners");
    this.selects = { block: panel.part("block"), head: panel.part("head") };
    this.source = new Words(panel.part("source"), (index) => this.lightSource(index));
    this.target = new Words(panel.part("target"), (index) => this.lightTarget(index));
    for (const select of Object.values(this.selects)) {
      select.addEventListener("change", () => this.update());
    }
  }

  hide() {
    this.area.hidden = true;
  }

  /** attention: [block][head][T][S]. */
  show({ source_pieces, pieces, attention }) {
    this.attention = attention;
    this.sources = joinWords(source_pieces);
    this.targets = joinWords(pieces);
    this.area.hidden = !this.sources.length || !this.targets.length;
    offer(this.selects.block, attention.length);
    offer(this.selects.head, attention[0].length);
    this.source.show(this.sources);
    this.target.show(this.targets);
    this.update();
  }

  /** Computes the weights of the chosen block and head, and shows them. */
  update() {
    const blocks = chosen(this.attention, this.selects.block);
    const maps = blocks.flatMap((heads) => chosen(heads, this.selects.head));
    const mean = maps[0].map((row, t) => row.map((_, s) => {
      return maps.reduce((sum, map) => sum + map[t][s], 0) / maps.length;
    }));
    this.weights = joinWeights(mean, this.targets, this.sources);
    this.showTable();
    if (this.target.pinned !== null) this.lightTarget(this.target.pinned);
    else this.lightSource(this.source.pinned);
  }

  lightTarget(index) {
    if (index === null) return this.lightNothing();
    this.target.light(null, index);
    this.source.light(relative(this.weights[index]));
    this.describe(this.targets[index], this.sources, this.weights[index]);
  }

  lightSource(index) {
    if (index === null) return this.lightNothing();
    const weights = this.weights.map((row) => row[index]);
    this.source.light(null, index);
    this.target.light(relative(weights));
    this.describe(this.sources[index], this.targets, weights);
  }

  lightNothing() {
    this.source.light(null);
    this.target.light(null);
    this.partners.textContent = HINT;
  }

  /** The three partners with the largest weights, in words. */
  describe(word, partners, weights) {
    const best = partners.map(({ text }, index) => [text, weights[index]]);
    best.sort((a, b) => b[1] - a[1]);
    const shown = best.slice(0, 3).map(([text, weight]) => `${text} ${percent(weight)}`);
    this.partners.textContent = `${word.text} ↔ ${shown.join(" · ")}`;
  }

  showTable() {
    const header = (text, scope) => {
      const cell = element("th", { scope });
      cell.append(element("span", { textContent: text }));
      return cell;
    };
    const first = element("tr");
    first.append(element("td"), ...this.sources.map(({ text }) => header(text, "col")));
    first.firstChild.style.background = "none";
    const rows = this.weights.map((weights, t) => {
      const row = element("tr");
      row.append(header(this.targets[t].text, "row"), ...weights.map((weight) => {
        const cell = element("td", { textContent: weight < 0.005 ? "" : Math.round(100 * weight) });
        cell.style.setProperty("--weight", Math.min(weight, 1));
        return cell;
      }));
      return row;
    });
    this.table.replaceChildren(first, ...rows);
  }
}

/** "mean", 1 … count; what was chosen stays chosen if there is as much of it. */
function offer(select, count) {
  if (select.options.length === count + 1) return;
  const names = ["mean", ...Array.from({ length: count }, (_, i) => String(i + 1))];
  select.replaceChildren(...names.map((name) => element("option", { textContent: name })));
}

function chosen(items, select) {
  return select.selectedIndex < 1 ? items : [items[select.selectedIndex - 1]];
}

function relative(weights) {
  const largest = Math.max(...weights, 1e-6);
  return weights.map((weight) => weight / largest);
}
