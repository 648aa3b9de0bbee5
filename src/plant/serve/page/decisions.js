// What people decide: shown at once, saved one step after the other, undone by a further step.

import { ask, Refusal } from "./api.js";

const AGAIN = 2000; // milliseconds until a step that did not reach the service is sent again

export class Decisions {
  constructor(on) {
    this.on = on;
    this.load({ note: "", version: 0, decisions: [] }, { toUnit: (x) => x, toPoint: (x) => x });
  }

  load(view, units) {
    this.note = view.note;
    this.version = view.version;
    this.units = units;
    this.by = new Map();
    this.take(view.decisions);
    this.done = [];
    this.undone = [];
    this.pending = [];
  }

  take(decisions) {
    const { toUnit } = this.units;
    const placed = (evidence) => evidence.map(({ start, end }) => ({ start: toUnit(start), end: toUnit(end) }));
    this.by = new Map(decisions.map((one) => [one.code, { ...one, evidence: placed(one.evidence) }]));
  }

  get unsaved() {
    return this.pending.length;
  }

  get(code) {
    return this.by.get(code);
  }

  accepted() {
    return [...this.by.values()].filter((one) => one.verdict === "accept").map((one) => one.code);
  }

  // A step with a name, which undo gives back; about: titles of codes that are new to the note.
  step(label, changes, { order = null, about = {} } = {}) {
    const back = { label, changes: changes.map(({ code }) => this.#restoring(code)), order: this.accepted(), about: {} };
    for (const { code } of changes) if (this.by.has(code)) back.about[code] = this.by.get(code);
    this.#make({ changes, order, about });
    this.done.push({ label, back, forth: { label, changes, order: this.accepted(), about } });
    this.undone = [];
    this.on.changed();
  }

  undo() {
    return this.#again(this.done, this.undone, "back");
  }

  redo() {
    return this.#again(this.undone, this.done, "forth");
  }

  #again(from, to, way) {
    const step = from.pop();
    if (!step) return null;
    to.push(step);
    this.#make(step[way]);
    this.on.changed();
    return step.label;
  }

  #restoring(code) {
    const now = this.by.get(code);
    if (!now) return { code, verdict: "none" };
    return { code, verdict: now.verdict, evidence: now.evidence, replaces: now.replaces };
  }

  #make({ changes, order, about }) {
    for (const change of changes) this.#apply(change, about?.[change.code]);
    const accepted = this.accepted();
    const orders = order && order.length && sameCodes(order, accepted);
    if (orders) this.#reorder(order);
    const sent = changes.map((change) => this.#sent(change));
    this.pending.push({ changes: sent, order: orders ? order : null, key: crypto.randomUUID() });
    this.#pump();
  }

  #apply({ code, verdict, evidence, replaces }, about) {
    if (verdict === "none") return void this.by.delete(code);
    const blank = { title: code, chapter: "", path: [], evidence: [], replaces: "", origin: "added" };
    const now = { ...blank, ...about, ...this.by.get(code), code, verdict };
    this.by.set(code, { ...now, evidence: evidence ?? now.evidence, replaces: replaces ?? now.replaces });
  }

  #reorder(order) {
    const moved = order.map((code) => [code, this.by.get(code)]);
    const others = [...this.by].filter(([, one]) => one.verdict !== "accept");
    this.by = new Map([...moved, ...others]);
  }

  #sent({ code, verdict, evidence, replaces }) {
    const toPoint = this.units.toPoint;
    const places = evidence?.map(({ start, end }) => ({ start: toPoint(start), end: toPoint(end) }));
    return { code, verdict, evidence: places ?? null, replaces: replaces ?? null };
  }

  async #pump() {
    if (this.pumping) return;
    this.pumping = true;
    while (this.pending.length) {
      this.on.saving("saving", this.pending.length);
      const note = this.note;
      const step = this.pending[0];
      try {
        const headers = { "If-Match": `"${this.version}"`, "Idempotency-Key": step.key };
        const answer = await ask(`notes/${note}/decisions`, { changes: step.changes, order: step.order }, headers);
        if (note === this.note) this.#saved(answer);
      } catch (problem) {
        await this.#failed(problem, step);
      }
    }
    this.pumping = false;
    this.on.saving("saved", 0);
  }

  #saved(answer) {
    this.version = answer.version;
    this.pending.shift();
    if (this.pending.length) return;
    this.take(answer.decisions);
    this.on.changed();
  }

  async #failed(problem, step) {
    if (!(problem instanceof Refusal) || problem.status >= 500 || problem.status === 429) {
      this.on.saving("waiting", this.pending.length);
      await new Promise((wake) => setTimeout(wake, AGAIN));
    } else if (problem.status === 401) {
      await this.on.signIn();
    } else if (problem.status === 412) {
      await this.#merge(problem.problem, step);
    } else {
      this.pending = [];
      await this.on.refused(problem);
    }
  }

  // Someone else was faster: what they decided of other codes is taken in, of the same code the coder chooses.
  async #merge({ version, by, decisions }, step) {
    const theirs = new Map(decisions.map((one) => [one.code, one]));
    const disputed = step.changes.find(({ code, verdict }) => theirs.has(code) && theirs.get(code).verdict !== verdict);
    this.version = version;
    step.order = null;
    step.key = crypto.randomUUID();
    if (disputed && !(await this.on.conflict(disputed, theirs.get(disputed.code), by))) {
      step.changes = step.changes.filter(({ code }) => code !== disputed.code);
    } else if (!disputed) this.on.merged(by);
    if (!step.changes.length) this.#saved({ version, decisions });
  }
}

const sameCodes = (one, other) => one.length === other.length && [...one].sort().join(" ") === [...other].sort().join(" ");
