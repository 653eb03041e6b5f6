// LangGraph.js: a saver that seals what another saver stores, and refuses what was not stored so.
//
//   put, putWrites ─► digests in a signed ledger ─► the other saver ─► "completed" in the ledger
//   getTuple, list ─► the other saver ─► compared with the ledger ─► LangGraph
//
// The other saver keeps the values; the ledger of a thread has their digests, their order and their parents. So a value
// that was changed, a checkpoint that is gone, an older state and a foreign write are refused before LangGraph resumes.

import { createHash } from "node:crypto";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import {
  BaseCheckpointSaver, WRITES_IDX_MAP, compareWritesSortKeys, getCheckpointId, writesSortKey,
  type ChannelVersions, type Checkpoint, type CheckpointListOptions, type CheckpointMetadata, type CheckpointTuple,
  type PendingWrite, type WritesSortKey,
} from "@langchain/langgraph-checkpoint";
import { Appender, type AppenderOptions } from "./appender.js";
import { InputError, StateError } from "./errors.js";
import { ThreadLedger, fileOf, threadsIn, type Effect, type Step } from "./ledger.js";

type Config = Parameters<BaseCheckpointSaver["getTuple"]>[0];

export interface SealedSaverOptions extends AppenderOptions {
  /** The folder of the ledgers: one for each thread. */
  ledgers: string;
}

/** Threads whose state is held in memory; that of others is read again. */
const MAX_HELD_THREADS = 1000;
/** The most looks at a thread that another process changes, or changed before it died. */
const MAX_LOOKS = 100;
/** The time between two looks. */
const LOOK_MS = 50;
/** No thread has this id: its ledger names all threads. */
const ALL_THREADS = "";

/** Seals each checkpoint and each write of a saver. It wraps any `BaseCheckpointSaver`. */
export class SealedSaver<V extends string | number = number> extends BaseCheckpointSaver<V> {
  readonly #inner: BaseCheckpointSaver<V>;
  readonly #options: SealedSaverOptions;
  readonly #appender: Appender;
  readonly #ledgers = new Map<string, ThreadLedger<ThreadState>>();
  readonly #threads: ThreadLedger<Set<string>>;
  /** Threads that it names for sure. */
  readonly #named = new Set<string>();
  /** Deletions that did not end while this process looked. */
  readonly #unended = new Set<string>();

  constructor(inner: BaseCheckpointSaver<V>, options: SealedSaverOptions) {
    super(inner.serde);
    this.#inner = inner;
    this.#options = options;
    this.#appender = new Appender(options.ledgers, options);
    this.#threads = new ThreadLedger(options.ledgers, ALL_THREADS, this.#appender, options, () => new Set<string>(), applyThread);
  }

  async getTuple(config: Config): Promise<CheckpointTuple | undefined> {
    const { thread, ns } = placeOf(config);
    return this.#again(thread, async (state) => {
      const tuple = await this.#inner.getTuple(config);
      const id = getCheckpointId(config) || undefined;
      const space = state.space(ns);
      const isLeaving = tuple !== undefined && state.isLeaving(ns, tuple.checkpoint.id);
      if (tuple === undefined || isLeaving) {
        const lost = id === undefined ? space.newestStored() : space.stored(id);
        if (lost !== undefined) throw gone(thread, lost);
        return undefined;
      }
      if (id !== undefined && tuple.checkpoint.id !== id) throw refused(thread, id, "the store gave another checkpoint");
      const newest = space.newestStored();
      if (id === undefined && newest !== undefined && tuple.checkpoint.id < newest) {
        throw refused(thread, tuple.checkpoint.id, `the store went back: checkpoint ${newest} was sealed after it`);
      }
      await this.#check(thread, ns, tuple, space);
      return tuple;
    });
  }

  /** Reads with the state of a thread; again where its steps continued meanwhile, so that a run is no alarm. */
  async #again<T>(thread: string, read: (state: ThreadState) => Promise<T>): Promise<T> {
    for (let left = MAX_LOOKS; ; left -= 1) {
      const state = await this.#ledger(thread).state();
      const { steps } = state;
      try {
        return await read(state);
      } catch (error) {
        if (!(error instanceof StateError)) throw error;
        const now = await this.#ledger(thread).state();
        const isSame = now.steps === steps;
        // Another process may be between the store and the end of its step.
        if (isSame && (left === 0 || !now.isBusy)) throw error;
        if (left === 0) throw new StateError(`thread ${thread} changes while it is read`, { hint: "try again" });
        await pause(LOOK_MS);
      }
    }
  }

  /** The state of a thread after the deletions that run now. Of one whose process died, none knows that. */
  async #settled(thread: string): Promise<ThreadState> {
    let state = await this.#ledger(thread).state();
    const first = [...state.deletions].filter(([id, isRunning]) => isRunning && !this.#unended.has(id));
    const running = (): string[] => first.map(([id]) => id).filter((id) => state.deletions.get(id) === true);
    for (let left = MAX_LOOKS; left > 0 && running().length > 0; left -= 1) {
      await pause(LOOK_MS);
      state = await this.#ledger(thread).state();
    }
    for (const id of running()) this.#unended.add(id);
    return state;
  }

  /** Deletions that failed, or that did not end while this process looked. */
  #ended({ deletions }: ThreadState): string[] {
    return [...deletions].filter(([id, isRunning]) => !isRunning || this.#unended.has(id)).map(([id]) => id);
  }

  async *list(config: Config, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    const { thread_id: only } = configurableOf(config);
    if (only !== undefined) {
      yield* this.#list(config, options, [only]);
      return;
    }
    // A thread that is gone as a whole is missed before the first one is given.
    const all: CheckpointTuple[] = [];
    for await (const tuple of this.#list(config, options, await this.#threadIds())) all.push(tuple);
    yield* all;
  }

  async *#list(config: Config, options: CheckpointListOptions | undefined, threads: readonly string[]): AsyncGenerator<CheckpointTuple> {
    const lists = new Map<string, Expected[]>();
    for (const thread of threads) lists.set(thread, expectedOf(await this.#ledger(thread).state(), config, options?.before));
    let [count, lowest] = [0, ""];
    for await (const listed of this.#inner.list(config, options)) {
      const { thread, ns } = placeOf(listed.config);
      const { id } = listed.checkpoint;
      const tuple = await this.#checked(thread, ns, listed);
      if (!lists.has(thread)) lists.set(thread, expectedOf(await this.#ledger(thread).state(), config, options?.before));
      // What is newer in its namespace comes first; a filter may have left it out.
      for (const expected of lists.get(thread) ?? []) {
        if (expected.ns !== ns) continue;
        await this.#present(expected.takeDownTo(id).filter((other) => other !== id), expected);
      }
      [count, lowest] = [count + 1, count === 0 || id < lowest ? id : lowest];
      if (tuple !== undefined) yield tuple;
    }
    // Of a list that a limit ended only what is newer than its last must be there.
    const end = options?.limit !== undefined && count >= options.limit ? lowest : "";
    for (const expected of [...lists.values()].flat()) await this.#present(expected.takeDownTo(end), expected);
  }

  /** The ids of all threads: those that were begun with their name in a ledger, and others that have a ledger. */
  async #threadIds(): Promise<string[]> {
    const threads = new Set(await this.#threads.state());
    const folder = path.resolve(this.#options.cwd ?? ".", this.#options.ledgers);
    for (const { file, thread } of await threadsIn(folder)) {
      if (file === fileOf(ALL_THREADS)) continue;
      if (file !== fileOf(thread)) throw new StateError(`${file} is refused: it is the ledger of thread ${thread}`, { hint: "move it away" });
      threads.add(thread);
    }
    return [...threads];
  }

  /** Has the ledger of all threads name this one, before its own begins. */
  async #begin(thread: string): Promise<void> {
    if (this.#named.has(thread)) return;
    if (!(await this.#threads.state()).has(thread)) {
      await this.#threads.step({ type: "thread_begun", payload: { thread_id: thread } }, async () => {});
    }
    this.#named.add(thread);
  }

  /** A checkpoint that was listed, as it was sealed; nothing where it was deleted meanwhile. */
  async #checked(thread: string, ns: string, listed: CheckpointTuple): Promise<CheckpointTuple | undefined> {
    const { id } = listed.checkpoint;
    // What was listed may be older than the state: then it is read again.
    const { spaces } = await this.#ledger(thread).state();
    const isSealed = this.#check(thread, ns, listed, spaces.get(ns) ?? new Space()).then(() => true);
    const isOther = (error: unknown): boolean => {
      if (error instanceof StateError) return false;
      throw error;
    };
    if (await isSealed.catch(isOther)) return listed;
    return this.#again(thread, async (state) => {
      const found = await this.#inner.getTuple(configOf(thread, ns, id));
      const space = state.space(ns);
      if (state.isLeaving(ns, id)) return undefined;
      if (found === undefined) {
        if (space.stored(id) !== undefined) throw gone(thread, id);
        return undefined;
      }
      await this.#check(thread, ns, found, space);
      return found;
    });
  }

  /** Refuses sealed checkpoints that the store does not have. It may have them and not have listed them. */
  async #present(ids: readonly string[], { thread, ns }: Expected): Promise<void> {
    for (const id of ids) {
      await this.#again(thread, async (state) => {
        const tuple = await this.#inner.getTuple(configOf(thread, ns, id));
        const space = state.space(ns);
        // It may have been deleted meanwhile.
        if (space.stored(id) === undefined) return;
        if (tuple === undefined || tuple.checkpoint.id !== id) throw gone(thread, id);
        await this.#check(thread, ns, tuple, space);
      });
    }
  }

  async put(config: Config, checkpoint: Checkpoint, metadata: CheckpointMetadata, newVersions: ChannelVersions): Promise<Config> {
    const { thread, ns } = placeOf(config);
    const [stored, storedMetadata] = [await this.#fixed(checkpoint), await this.#fixed(metadata)];
    const parent = configurableOf(config).checkpoint_id ?? null;
    const payload = {
      thread_id: thread, checkpoint_ns: ns, checkpoint_id: checkpoint.id, parent_id: parent,
      checkpoint: stored.digest, metadata: storedMetadata.digest,
    };
    await this.#writable(thread);
    return this.#ledger(thread).step({ type: "checkpoint_put", payload }, (state) => {
      // Where the parent was deleted, the values of all channels went with it.
      const isFirst = parent !== null && !state.space(ns).checkpoints.has(parent);
      const versions = isFirst ? { ...versionsOf(checkpoint), ...newVersions } : newVersions;
      // The copy is stored: a node that still holds the values cannot change what was sealed.
      return this.#inner.put(config, stored.value as Checkpoint, storedMetadata.value as CheckpointMetadata, versions);
    });
  }

  async putWrites(config: Config, writes: PendingWrite[], taskId: string, taskPath?: string): Promise<void> {
    const { thread, ns } = placeOf(config);
    const id = getCheckpointId(config);
    if (!id) throw new InputError("writes belong to a checkpoint", { hint: "give `checkpoint_id` in `configurable`" });
    const fixed = await Promise.all(writes.map(async ([channel, value]) => ({ channel, ...(await this.#fixed(value)) })));
    const payload = {
      thread_id: thread, checkpoint_ns: ns, checkpoint_id: id, task_id: taskId, task_path: taskPath ?? "",
      writes: fixed.map(({ channel, digest }, at) => ({ idx: WRITES_IDX_MAP[channel] ?? at, channel, value: digest })),
    };
    const copies = fixed.map(({ channel, value }): PendingWrite => [channel, value]);
    await this.#writable(thread);
    await this.#ledger(thread).step({ type: "writes_put", payload }, () => this.#inner.putWrites(config, copies, taskId, taskPath));
  }

  /** Names a thread that begins, and ends a deletion of it that did not end: what it left is not to come back. */
  async #writable(thread: string): Promise<void> {
    await this.#begin(thread);
    if (this.#ended(await this.#settled(thread)).length > 0) await this.deleteThread(thread);
  }

  async deleteThread(threadId: string): Promise<void> {
    // Those that failed, or whose process died, end with this one. Others may still run.
    const payload = { thread_id: threadId, ends: this.#ended(await this.#ledger(threadId).state()) };
    await this.#ledger(threadId).alone((step) => step({ type: "thread_deleted", payload }, () => this.#inner.deleteThread(threadId)));
  }

  /** Seals what the store has of a thread that is older than this saver; the number of its checkpoints.
   *
   * Nothing shows what was changed before: look at it first. */
  async adopt(threadId: string): Promise<number> {
    await this.#begin(threadId);
    const state = whole(await this.#settled(threadId));
    return this.#ledger(threadId).alone(async (step) => {
      const found: CheckpointTuple[] = [];
      for await (const tuple of this.#inner.list({ configurable: { thread_id: threadId } })) found.unshift(tuple);
      let count = 0;
      for (const tuple of found) {
        const { ns } = placeOf(tuple.config);
        if (state.space(ns).checkpoints.has(tuple.checkpoint.id)) continue;
        // It is stored already.
        for (const effect of await this.#effectsOf(threadId, ns, tuple)) await step(effect, async () => {});
        count += 1;
      }
      return count;
    });
  }

  /** The steps that seal a checkpoint as it is. Of its writes only the order is known, not the places. */
  async #effectsOf(thread: string, ns: string, tuple: CheckpointTuple): Promise<Effect[]> {
    const place = { thread_id: thread, checkpoint_ns: ns, checkpoint_id: tuple.checkpoint.id };
    const parent = tuple.parentConfig === undefined ? null : (getCheckpointId(tuple.parentConfig) || null);
    const checkpoint = (await this.#fixed(tuple.checkpoint)).digest;
    const metadata = (await this.#fixed(tuple.metadata)).digest;
    const effects: Effect[] = [{ type: "checkpoint_put", payload: { ...place, parent_id: parent, checkpoint, metadata } }];
    for (const [at, [task, channel, value]] of (tuple.pendingWrites ?? []).entries()) {
      const write = { idx: WRITES_IDX_MAP[channel] ?? at, channel, value: (await this.#fixed(value)).digest };
      const path = String(at).padStart(8, "0");
      effects.push({ type: "writes_put", payload: { ...place, task_id: task, task_path: path, writes: [write] } });
    }
    return effects;
  }

  /** Ends the process that seals. The saver stays usable: a later call starts another one. */
  close(): Promise<void> {
    return this.#appender.close();
  }

  override getNextVersion(current: V | undefined): V {
    return this.#inner.getNextVersion(current);
  }

  /** Compares a checkpoint and its writes with what was sealed. */
  async #check(thread: string, ns: string, tuple: CheckpointTuple, space: Space): Promise<void> {
    const { id } = tuple.checkpoint;
    const at = placeOf(tuple.config);
    if (at.thread !== thread || at.ns !== ns || getCheckpointId(tuple.config) !== id) throw refused(thread, id, "the store gave one of another place");
    const sealed = space.checkpoints.get(id);
    if (sealed === undefined) throw refused(thread, id, "it is not sealed", "it was stored without the sealed saver, or by a stranger");
    const found: Candidate = {
      checkpoint: (await this.#fixed(tuple.checkpoint)).digest,
      metadata: (await this.#fixed(tuple.metadata)).digest,
      parent: tuple.parentConfig === undefined ? null : getCheckpointId(tuple.parentConfig),
    };
    const differs = (member: keyof Candidate): boolean => !sealed.candidates.some((candidate) => candidate[member] === found[member]);
    const member = (["checkpoint", "metadata", "parent"] as const).find(differs);
    if (member !== undefined) throw refused(thread, id, `its ${member} is not the one that was sealed`);
    const writes = await Promise.all((tuple.pendingWrites ?? []).map(async ([task, channel, value]) =>
      writeKey(task, channel, (await this.#fixed(value)).digest)));
    const fault = space.writeFault(id, writes);
    if (fault !== undefined) throw refused(thread, id, fault);
  }

  #ledger(thread: string): ThreadLedger<ThreadState> {
    const held = this.#ledgers.get(thread);
    const ledger = held ?? new ThreadLedger(this.#options.ledgers, thread, this.#appender, this.#options, () => new ThreadState(thread), apply);
    // The order of the map is that of the last use.
    this.#ledgers.delete(thread);
    this.#ledgers.set(thread, ledger);
    if (this.#ledgers.size > MAX_HELD_THREADS) {
      const oldest = [...this.#ledgers].find(([name, other]) => name !== thread && other.isIdle);
      if (oldest !== undefined) this.#ledgers.delete(oldest[0]);
    }
    return ledger;
  }

  /** A value as it comes back from a store, and its digest. A second way through the serializer changes nothing. */
  async #fixed(value: unknown): Promise<{ value: unknown; digest: string }> {
    const first = await this.serde.dumpsTyped(value);
    const loaded: unknown = await this.serde.loadsTyped(...first);
    const [type, bytes] = await this.serde.dumpsTyped(loaded);
    const text = type === "json" ? canonical(JSON.parse(new TextDecoder().decode(bytes))) : undefined;
    const hash = createHash("sha256").update(`${type}\n`).update(text ?? bytes);
    return { value: loaded, digest: hash.digest("hex") };
  }
}

/** JSON with sorted names: databases do not keep their order. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => {
    if (typeof member !== "object" || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
  });
}

interface Place {
  thread_id?: string;
  checkpoint_ns?: string;
  checkpoint_id?: string;
}

function configurableOf(config: Config): Place {
  return (config.configurable ?? {}) as Place;
}

function configOf(thread: string, ns: string, id: string): Config {
  return { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } };
}

/** The versions of all channels that have a value. */
function versionsOf({ channel_values: values, channel_versions: versions }: Checkpoint): ChannelVersions {
  return Object.fromEntries(Object.entries(versions).filter(([name]) => name in values));
}

function placeOf(config: Config): { thread: string; ns: string } {
  const { thread_id: thread, checkpoint_ns: ns } = configurableOf(config);
  if (typeof thread !== "string" || thread === "") {
    throw new InputError("a checkpoint belongs to a thread", { hint: "give `thread_id`, a text, in `configurable`" });
  }
  return { thread, ns: ns ?? "" };
}

function refused(thread: string, id: string, why: string, hint = "restore the store from a copy, or begin another thread"): StateError {
  return new StateError(`checkpoint ${id} of thread ${thread} is refused: ${why}`, { hint });
}

function gone(thread: string, id: string): StateError {
  return refused(thread, id, "it was sealed, and the store does not have it");
}

/** What a checkpoint may be: one value, or several where a process died while it stored one. */
interface Candidate {
  checkpoint: string;
  metadata: string;
  parent: string | null;
}

interface SealedWrite {
  key: WritesSortKey;
  isStored: boolean;
  /** The texts of `writeKey` that it may be. */
  values: Set<string>;
}

function writeKey(task: string, channel: string, digest: string): string {
  return JSON.stringify([task, channel, digest]);
}

/** The checkpoints of one namespace. */
class Space {
  readonly checkpoints = new Map<string, { candidates: Candidate[]; isStored: boolean }>();
  readonly writes = new Map<string, Map<string, SealedWrite>>();

  stored(id: string): string | undefined {
    return this.checkpoints.get(id)?.isStored === true ? id : undefined;
  }

  allStored(): string[] {
    return [...this.checkpoints.keys()].filter((id) => this.stored(id) !== undefined);
  }

  /** The newest one: LangGraph's ids grow with time. */
  newestStored(): string | undefined {
    return this.allStored().reduce<string | undefined>((newest, id) => (newest === undefined || id > newest ? id : newest), undefined);
  }

  /** Why the writes of a checkpoint are not those that were sealed, in one of the two orders that savers use. */
  writeFault(id: string, found: readonly string[]): string | undefined {
    const sealed = [...(this.writes.get(id)?.values() ?? [])];
    const byPath = sealed.slice().sort((a, b) => compareWritesSortKeys(a.key, b.key));
    const byTask = sealed.slice().sort((a, b) => compareWritesSortKeys(["", a.key[1], a.key[2]], ["", b.key[1], b.key[2]]));
    return faultInOrder(byPath, found) && faultInOrder(byTask, found);
  }
}

/** The checkpoints of a namespace that a list must give, newest first, without those that were looked for. */
class Expected {
  readonly thread: string;
  readonly ns: string;
  readonly #ids: string[];

  constructor(thread: string, ns: string, ids: readonly string[]) {
    this.thread = thread;
    this.ns = ns;
    // From the oldest on, since they are taken from the end.
    this.#ids = [...ids].sort();
  }

  /** Takes those that are not older than this one. */
  takeDownTo(id: string): string[] {
    const at = this.#ids.findIndex((other) => other >= id);
    return at < 0 ? [] : this.#ids.splice(at).reverse();
  }
}

function expectedOf(state: ThreadState, config: Config, before: Config | undefined): Expected[] {
  const { checkpoint_ns: ns, checkpoint_id: only } = configurableOf(config);
  const end = before === undefined ? undefined : getCheckpointId(before);
  const isAsked = (id: string): boolean => (!end || id < end) && (!only || id === only);
  const spaces = [...state.spaces].filter(([name]) => ns === undefined || name === ns);
  return spaces.map(([name, space]) => new Expected(state.thread, name, space.allStored().filter(isAsked)));
}

function faultInOrder(sealed: readonly SealedWrite[], found: readonly string[]): string | undefined {
  let at = 0;
  for (const key of found) {
    while (at < sealed.length && sealed[at]?.values.has(key) !== true) {
      if (sealed[at]?.isStored === true) return "a write of it is not the one that was sealed, or not in its place";
      at += 1;
    }
    if (at === sealed.length) return "it has a write that was not sealed";
    at += 1;
  }
  return sealed.slice(at).some(({ isStored }) => isStored) ? "a write of it was sealed, and the store does not have it" : undefined;
}

/** What the ledger of a thread proves about its store. */
class ThreadState {
  readonly thread: string;
  readonly spaces = new Map<string, Space>();
  /** How many steps it is made of. */
  steps = 0;
  /** Deletions that did not complete, by the ids of their steps. Does it run, as far as the ledger knows? */
  readonly deletions = new Map<string, boolean>();
  /** What each of these deletions may have left. It does not count any more. */
  readonly #leaving = new Map<string, Set<string>>();
  /** The steps that began, each with the number of deletions before it, and whether one ran. */
  readonly #begun = new Map<string, { deletions: number; isBeside: boolean }>();
  #deletions = 0;

  constructor(thread: string) {
    this.thread = thread;
  }

  /** Did a step begin that did not end? */
  get isBusy(): boolean {
    return this.#begun.size > 0;
  }

  isLeaving(ns: string, id: string): boolean {
    const isOf = (left: Set<string>): boolean => left.has(`${ns}\n${id}`);
    return [...this.#leaving.values()].some(isOf) && !this.space(ns).checkpoints.has(id);
  }

  /** Notes a step that keeps something. Is it known to be stored? Not where a deletion ran at its time. */
  isKept({ id, status }: Step): boolean {
    if (status === "started") this.#begun.set(id, { deletions: this.#deletions, isBeside: this.deletions.size > 0 });
    const begun = this.#begun.get(id);
    if (status !== "started") this.#begun.delete(id);
    return status === "completed" && begun !== undefined && !begun.isBeside && begun.deletions === this.#deletions;
  }

  /** What was there is gone when a deletion begins. */
  delete({ id, status, effect }: Step): void {
    if (status === "started") {
      const left = [...this.spaces].flatMap(([ns, { checkpoints }]) => [...checkpoints.keys()].map((other) => `${ns}\n${other}`));
      this.#leaving.set(id, new Set(left));
      this.spaces.clear();
      this.#deletions += 1;
    }
    if (status === "completed") {
      const { ends } = effect.payload;
      for (const ended of [id, ...(Array.isArray(ends) ? ends : [])].map(String)) {
        this.deletions.delete(ended);
        this.#leaving.delete(ended);
      }
    } else {
      this.deletions.set(id, status === "started");
    }
  }

  space(ns: string): Space {
    const held = this.spaces.get(ns) ?? new Space();
    this.spaces.set(ns, held);
    return held;
  }
}

interface Put {
  thread_id: string;
  checkpoint_ns: string;
  checkpoint_id: string;
  parent_id: string | null;
  checkpoint: string;
  metadata: string;
}

interface PutWrites {
  thread_id: string;
  checkpoint_ns: string;
  checkpoint_id: string;
  task_id: string;
  task_path: string;
  writes: { idx: number; channel: string; value: string }[];
}

/** One step of the ledger. A step that began and did not end may be in the store or not. */
function apply(state: ThreadState, step: Step): void {
  const { effect } = step;
  state.steps += 1;
  if (effect.payload.thread_id !== state.thread) {
    throw new StateError(`the ledger of thread ${state.thread} has a step of another thread`);
  }
  switch (effect.type) {
    case "checkpoint_put":
      return applyPut(state, effect.payload as unknown as Put, state.isKept(step));
    case "writes_put":
      return applyWrites(state, effect.payload as unknown as PutWrites, state.isKept(step));
    case "thread_deleted":
      return state.delete(step);
    default:
      throw new StateError(`the ledger of thread ${state.thread} has a step of type ${effect.type}`);
  }
}

function applyPut(state: ThreadState, put: Put, isStored: boolean): void {
  const { checkpoints } = state.space(put.checkpoint_ns);
  const candidate = { checkpoint: put.checkpoint, metadata: put.metadata, parent: put.parent_id };
  const held = checkpoints.get(put.checkpoint_id);
  if (isStored || held === undefined) checkpoints.set(put.checkpoint_id, { candidates: [candidate], isStored });
  else held.candidates.push(candidate);
}

function applyWrites(state: ThreadState, put: PutWrites, isStored: boolean): void {
  const { writes } = state.space(put.checkpoint_ns);
  const held = writes.get(put.checkpoint_id) ?? new Map<string, SealedWrite>();
  writes.set(put.checkpoint_id, held);
  const isSpecial = put.writes.every(({ idx }) => idx < 0);
  for (const { idx, channel, value } of put.writes) {
    const slot = `${put.task_id} ${idx}`;
    const key = writeKey(put.task_id, channel, value);
    const before = held.get(slot);
    if (before === undefined) {
      held.set(slot, { key: writesSortKey(put.task_path, put.task_id, idx), isStored, values: new Set([key]) });
    } else if (idx < 0) {
      // The last one counts. Savers differ where others are written with it.
      if (isStored && isSpecial) before.values.clear();
      before.values.add(key);
      before.isStored ||= isStored;
    } else {
      // The first one counts, and which it was is open until one is known to be stored.
      if (!before.isStored) before.values.add(key);
      before.isStored ||= isStored;
    }
  }
}

/** One step of the ledger that names all threads. */
function applyThread(threads: Set<string>, { effect }: Step): void {
  const { thread_id: thread } = effect.payload;
  if (effect.type !== "thread_begun" || typeof thread !== "string") {
    throw new StateError(`the ledger of all threads has a step of type ${effect.type}`);
  }
  threads.add(thread);
}

/** The state of a thread that is whole. Of one that is half deleted nothing shows what an attacker removed. */
function whole(state: ThreadState): ThreadState {
  if (state.deletions.size === 0) return state;
  throw new StateError(`thread ${state.thread} is refused: its deletion began and did not end`, { hint: "call deleteThread again" });
}
