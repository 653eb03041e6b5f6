// LangGraph.js: a saver that seals what another saver stores, and refuses what was not stored so.
//
//   put, putWrites ─► digests in a signed ledger ─► the other saver ─► "completed" in the ledger
//   getTuple, list ─► the other saver ─► compared with the ledger ─► LangGraph
//
// The other saver keeps the values; the ledger of a thread has their digests, their order and their parents. So a value
// that was changed, a checkpoint that is gone, an older state and a foreign write are refused before LangGraph resumes.

import { createHash } from "node:crypto";
import {
  BaseCheckpointSaver, WRITES_IDX_MAP, compareWritesSortKeys, getCheckpointId, writesSortKey,
  type ChannelVersions, type Checkpoint, type CheckpointListOptions, type CheckpointMetadata, type CheckpointTuple,
  type PendingWrite, type WritesSortKey,
} from "@langchain/langgraph-checkpoint";
import { Appender, type AppenderOptions } from "./appender.js";
import { InputError, StateError } from "./errors.js";
import { ThreadLedger, type Effect, type Step } from "./ledger.js";

type Config = Parameters<BaseCheckpointSaver["getTuple"]>[0];

export interface SealedSaverOptions extends AppenderOptions {
  /** The folder of the ledgers: one for each thread. */
  ledgers: string;
}

/** Threads whose state is held in memory; that of others is read again. */
const MAX_HELD_THREADS = 1000;

/** Seals each checkpoint and each write of a saver. It wraps any `BaseCheckpointSaver`. */
export class SealedSaver<V extends string | number = number> extends BaseCheckpointSaver<V> {
  readonly #inner: BaseCheckpointSaver<V>;
  readonly #options: SealedSaverOptions;
  readonly #appender: Appender;
  readonly #ledgers = new Map<string, ThreadLedger<ThreadState>>();

  constructor(inner: BaseCheckpointSaver<V>, options: SealedSaverOptions) {
    super(inner.serde);
    this.#inner = inner;
    this.#options = options;
    this.#appender = new Appender(options.ledgers, options);
  }

  async getTuple(config: Config): Promise<CheckpointTuple | undefined> {
    const { thread, ns } = placeOf(config);
    const state = whole(await this.#ledger(thread).state());
    const tuple = await this.#inner.getTuple(config);
    const id = getCheckpointId(config) || undefined;
    const space = state.space(ns);
    if (tuple === undefined) {
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
  }

  async *list(config: Config, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    const lists = new Map<string, Expected[]>();
    let [count, lowest] = [0, ""];
    for await (const tuple of this.#inner.list(config, options)) {
      const { thread, ns } = placeOf(tuple.config);
      const { id } = tuple.checkpoint;
      const state = whole(await this.#ledger(thread).state());
      await this.#check(thread, ns, tuple, state.space(ns));
      if (!lists.has(thread)) lists.set(thread, expectedOf(state, config, options?.before));
      // What is newer in its namespace comes first; a filter may have left it out.
      for (const expected of lists.get(thread) ?? []) {
        if (expected.ns !== ns) continue;
        await this.#present(expected.takeDownTo(id).filter((other) => other !== id), expected);
      }
      [count, lowest] = [count + 1, count === 0 || id < lowest ? id : lowest];
      yield tuple;
    }
    const { thread_id: thread } = configurableOf(config);
    if (thread !== undefined && !lists.has(thread)) {
      lists.set(thread, expectedOf(whole(await this.#ledger(thread).state()), config, options?.before));
    }
    // Of a list that a limit ended only what is newer than its last must be there.
    const end = options?.limit !== undefined && count >= options.limit ? lowest : "";
    for (const expected of [...lists.values()].flat()) await this.#present(expected.takeDownTo(end), expected);
  }

  /** Refuses sealed checkpoints that the store does not have. It may have them and not have listed them. */
  async #present(ids: readonly string[], { thread, ns }: Expected): Promise<void> {
    for (const id of ids) {
      const tuple = await this.#inner.getTuple({ configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } });
      const space = whole(await this.#ledger(thread).state()).space(ns);
      // It may have been deleted meanwhile.
      if (space.stored(id) === undefined) continue;
      if (tuple === undefined || tuple.checkpoint.id !== id) throw gone(thread, id);
      await this.#check(thread, ns, tuple, space);
    }
  }

  async put(config: Config, checkpoint: Checkpoint, metadata: CheckpointMetadata, newVersions: ChannelVersions): Promise<Config> {
    const { thread, ns } = placeOf(config);
    const [stored, storedMetadata] = [await this.#fixed(checkpoint), await this.#fixed(metadata)];
    const payload = {
      thread_id: thread, checkpoint_ns: ns, checkpoint_id: checkpoint.id, parent_id: configurableOf(config).checkpoint_id ?? null,
      checkpoint: stored.digest, metadata: storedMetadata.digest,
    };
    // The copy is stored: a node that still holds the values cannot change what was sealed.
    return this.#ledger(thread).step({ type: "checkpoint_put", payload }, () =>
      this.#inner.put(config, stored.value as Checkpoint, storedMetadata.value as CheckpointMetadata, newVersions), whole);
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
    await this.#ledger(thread).step({ type: "writes_put", payload }, () => this.#inner.putWrites(config, copies, taskId, taskPath), whole);
  }

  async deleteThread(threadId: string): Promise<void> {
    const payload = { thread_id: threadId };
    await this.#ledger(threadId).step({ type: "thread_deleted", payload }, () => this.#inner.deleteThread(threadId));
  }

  /** Seals what the store has of a thread that is older than this saver; the number of its checkpoints.
   *
   * Nothing shows what was changed before: look at it first. */
  async adopt(threadId: string): Promise<number> {
    const ledger = this.#ledger(threadId);
    const state = whole(await ledger.state());
    const found: CheckpointTuple[] = [];
    for await (const tuple of this.#inner.list({ configurable: { thread_id: threadId } })) found.unshift(tuple);
    let count = 0;
    for (const tuple of found) {
      const { ns } = placeOf(tuple.config);
      if (state.space(ns).checkpoints.has(tuple.checkpoint.id)) continue;
      // It is stored already.
      for (const effect of await this.#effectsOf(threadId, ns, tuple)) await ledger.step(effect, async () => {});
      count += 1;
    }
    return count;
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
  /** A deletion began and did not end: any part of the thread may be gone. */
  isDeleting = false;

  constructor(thread: string) {
    this.thread = thread;
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
function apply(state: ThreadState, { status, effect }: Step): void {
  if (effect.payload.thread_id !== state.thread) {
    throw new StateError(`the ledger of thread ${state.thread} has a step of another thread`);
  }
  switch (effect.type) {
    case "checkpoint_put":
      return applyPut(state, effect.payload as unknown as Put, status === "completed");
    case "writes_put":
      return applyWrites(state, effect.payload as unknown as PutWrites, status === "completed");
    case "thread_deleted":
      return applyDelete(state, status === "completed");
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

function applyDelete(state: ThreadState, isDone: boolean): void {
  state.isDeleting = !isDone;
  if (isDone) state.spaces.clear();
}

/** The state of a thread that is whole. Of one that is half deleted nothing shows what an attacker removed. */
function whole(state: ThreadState): ThreadState {
  if (!state.isDeleting) return state;
  throw new StateError(`thread ${state.thread} is refused: its deletion began and did not end`, { hint: "call deleteThread again" });
}
