// One event stream for the open page. Hidden tabs have no stream, because browsers allow only six per server.

import { ask, chosen, query, signIn } from "./ask.js";

const AGAIN_MS = 3000;
const WHY_MS_MAX = 1000;
// The server draws charts in three widths.
const NARROW = matchMedia("(max-width: 600px)");
const WIDE = matchMedia("(min-width: 1000px)");
const screen_ = () => (NARROW.matches ? "narrow" : WIDE.matches ? null : "medium");

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
    for (const width of [NARROW, WIDE]) width.addEventListener("change", () => {
      this.#close();
      this.#open();
    });
  }

  // Calls `hear(data)` with each new state of this topic. If `topic` is null, the stream stops. `refused(error)` is called if the service rejects this topic.
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
      if (source.readyState === EventSource.CLOSED) this.#again(source); // the stream was rejected, so the browser does not reconnect on its own
      else this.#say("lost");
    };
  }

  async #again(source) {
    const error = await ask(this.#path(), { signal: AbortSignal.timeout(WHY_MS_MAX) }).catch((error) => error); // opens the sign-in page if the session has ended
    if (this.#source !== source) return;
    this.#say(error.status ? "trouble" : "lost", error.message);
    if (error.status) this.#refused(error); // otherwise, the server did not respond, or the topic works again
    setTimeout(() => {
      if (this.#source !== source) return;
      this.#close();
      this.#open();
    }, AGAIN_MS);
  }

  #path() {
    const { topic, values } = this.#topic;
    return `/v1/live/${topic}${query({ ...values, screen: screen_() })}`;
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
