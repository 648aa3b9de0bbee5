// What people decide: shown at once, saved one step after the other, undone by a further step.

import { ask } from "./api.js";
import { moved, offsets } from "./offsets.js";

const AGAIN = 2000; // milliseconds until a step that did not arrive is sent again

export class Decisions {
  constructor(on) {
    this.on = on;
    this.load({ note: "", version: 0, decisions: [] }, offsets(""));
  }

  load({ note, version, decisions }, units) {
    Object.assign(this, { note, version, units, done: [], undone: [], pending: [] });
    this.#take(decisions);
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

  // A step with a name, which undo gives back; about: codes that may be new to the note, with their titles.
  step(label, changes, { order, about = [] } = {}) {
    const now = changes.map(({ code }) => this.get(code) ?? { code, verdict: "none" });
    const back = { changes: now.map(bare), order: this.accepted(), about: now };
    this.#make({ changes, order, about });
    this.done.push({ label, back, forth: { changes, order: this.accepted(), about } });
    this.undone = [];
    this.on.changed();
  }

  // The name of the last step, which is undone, or done again.
  undo(again) {
    const [from, to] = again ? [this.undone, this.done] : [this.done, this.undone];
    const step = from.pop();
    if (!step) return "";
    to.push(step);
    this.#make(again ? step.forth : step.back);
    this.on.changed();
    return step.label;
  }

  #take(decisions) {
    const placed = (one) => ({ ...one, evidence: one.evidence.map((mark) => moved(mark, this.units.toUnit)) });
    this.by = new Map(decisions.map((one) => [one.code, placed(one)]));
  }

  #make({ changes, order, about }) {
    for (const change of changes) this.#apply(change, about.find(({ code }) => code === change.code));
    const accepted = this.accepted();
    const orders = order?.length === accepted.length && accepted.length && accepted.every((code) => order.includes(code));
    if (orders) this.by = new Map([...order.map((code) => [code, this.get(code)]), ...this.by]);
    const sent = changes.map((change) => ({ ...change, evidence: change.evidence?.map((mark) => moved(mark, this.units.toPoint)) }));
    this.pending.push({ changes: sent, order: orders ? order : null, key: crypto.randomUUID() });
    this.#pump();
  }

  #apply({ code, verdict, evidence, replaces }, about) {
    if (verdict === "none") return void this.by.delete(code);
    const { title = code, chapter = "", path = [] } = about ?? {};
    const now = this.get(code) ?? { code, title, chapter, path, evidence: [], replaces: "", origin: "added" };
    this.by.set(code, { ...now, verdict, evidence: evidence ?? now.evidence, replaces: replaces ?? now.replaces });
  }

  async #pump() {
    if (this.pumping) return;
    this.pumping = true;
    while (this.pending.length) {
      this.on.saving("saving", this.pending.length);
      const [{ changes, order, key }] = this.pending;
      const { note, version } = this;
      try {
        const answer = await ask(`notes/${note}/decisions`, { changes, order }, { "If-Match": `"${version}"`, "Idempotency-Key": key });
        if (note === this.note) this.#saved(answer);
      } catch (problem) {
        if (note === this.note) await this.#failed(problem);
      }
    }
    this.pumping = false;
    this.on.saving("saved", 0);
  }

  #saved({ version, decisions }) {
    this.version = version;
    this.pending.shift();
    if (this.pending.length) return;
    this.#take(decisions);
    this.on.changed();
  }

  async #failed(problem) {
    const { status = 503 } = problem; // without one it was not reached
    if (status >= 500 || status === 429) {
      this.on.saving("waiting", this.pending.length);
      await new Promise((wake) => setTimeout(wake, AGAIN));
    } else if (status === 401) {
      await this.on.signIn();
    } else if (status === 412) {
      await this.#merge(problem.problem, this.pending[0]);
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
    Object.assign(step, { order: null, key: crypto.randomUUID() });
    if (disputed && !(await this.on.conflict(disputed, theirs.get(disputed.code), by))) {
      step.changes = step.changes.filter(({ code }) => code !== disputed.code);
    } else if (!disputed) this.on.merged(by);
    if (!step.changes.length) this.#saved({ version, decisions });
  }
}

const bare = ({ code, verdict, evidence, replaces }) => ({ code, verdict, evidence, replaces });
