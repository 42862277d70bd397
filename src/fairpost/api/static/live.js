// One stream from the server for the page that is open. A tab that nobody looks at has none: browsers allow only six.

import { ask, chosen, query, signIn } from "./ask.js";

const AGAIN_MS = 3000;
const WHY_MS_MAX = 1000;
const NARROW = matchMedia("(max-width: 600px)"); // for such a screen the server draws other charts

export class Live {
  #source = null;
  #topic = null;
  #hear = null;
  #refused = null;
  #state = "off";

  constructor(onState) {
    this.onState = onState;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#close() : this.#open()));
    addEventListener("pagehide", () => this.#close());
    NARROW.addEventListener("change", () => {
      this.#close();
      this.#open();
    });
  }

  // From now on `hear(data)` is called with each new state of this topic; null: with nothing. `refused(error)`: the service does not tell it.
  follow(topic, values, hear, refused = () => {}) {
    this.#close();
    this.#say("off");
    this.#topic = topic && { topic, values: { ...values, workspace: chosen() } };
    this.#hear = hear;
    this.#refused = refused;
    this.#open();
  }

  #open() {
    if (!this.#topic || this.#source || document.hidden) return;
    const source = new EventSource(this.#path());
    this.#source = source;
    source.addEventListener("state", (event) => {
      this.#say("live");
      this.#hear(JSON.parse(event.data));
    });
    source.addEventListener("trouble", (event) => this.#say("trouble", JSON.parse(event.data).message));
    source.addEventListener("over", () => signIn());
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) this.#again(source); // it was refused, and the browser does not try again by itself
      else this.#say("lost");
    };
  }

  async #again(source) {
    const error = await ask(this.#path(), { signal: AbortSignal.timeout(WHY_MS_MAX) }).catch((error) => error); // who is not signed in any more leaves here
    if (this.#source !== source) return;
    this.#say(error.status ? "trouble" : "lost", error.message);
    if (error.status) this.#refused(error); // else nobody answered, or by now it is told
    setTimeout(() => {
      if (this.#source !== source) return;
      this.#close();
      this.#open();
    }, AGAIN_MS);
  }

  #path() {
    const { topic, values } = this.#topic;
    return `/v1/live/${topic}${query({ ...values, screen: NARROW.matches ? "narrow" : null })}`;
  }

  #close() {
    this.#source?.close();
    this.#source = null;
  }

  #say(state, words = "") {
    if (state === this.#state && state === "live") return;
    this.#state = state;
    this.onState(state, words);
  }
}
