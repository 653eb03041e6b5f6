// The calls of one process that change a thread: many may keep at once, and one that deletes is alone.

/** Keeps those apart that keep and those that delete, in the order in which they ask. */
export class Gate {
  #alone: Promise<unknown> = Promise.resolve();
  readonly #running = new Set<Promise<unknown>>();

  get isIdle(): boolean {
    return this.#running.size === 0;
  }

  /** Work that keeps something. */
  keeping<T>(work: () => Promise<T>): Promise<T> {
    return this.#noted(this.#alone.then(work));
  }

  /** Work that deletes. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    const before = [...this.#running];
    const done = Promise.all(before).then(work);
    this.#alone = done.catch(() => {});
    return this.#noted(done);
  }

  #noted<T>(done: Promise<T>): Promise<T> {
    const ended: Promise<unknown> = done.then(() => {}, () => {}).then(() => this.#running.delete(ended));
    this.#running.add(ended);
    return done;
  }
}
