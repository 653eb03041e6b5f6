// Who may seal a native record (transcript.md §5): the keys of a record and what seals and events do to
// them. Keys are hex digits here, so that sets can hold them.

import { hex, parseHex } from "./bytes.js";
import { keyId } from "./ed25519.js";
import { MAX_RECORD_KEYS } from "./native-lines.js";

export type Role = "current" | "next" | "authority" | "delegate" | "heir";

export interface SealingKey {
  readonly key: string;
  readonly role: Role;
}

/** The raw bytes of a key that is held as hex digits. */
export function rawKey(key: string): Uint8Array {
  const bytes = parseHex(key, 32);
  if (bytes === null) throw new Error("a held key that is no hex");
  return bytes;
}

export class RecordKeys {
  private current: string | null;
  private next: string | null = null;
  private announced: string | null = null;
  private readonly delegates = new Set<string>();
  private readonly givenUp = new Set<string>();
  /** The last heir: it alone may seal. */
  private heir: string | null = null;
  private readonly ids = new Map<string, string>();

  /** `authority` and `first` are the members `authority` and `key` of line 1. */
  constructor(
    private readonly authority: string,
    private readonly first: string,
  ) {
    this.current = first;
  }

  clone(): RecordKeys {
    const copy = new RecordKeys(this.authority, this.first);
    copy.current = this.current;
    copy.next = this.next;
    copy.announced = this.announced;
    for (const key of this.delegates) copy.delegates.add(key);
    for (const key of this.givenUp) copy.givenUp.add(key);
    copy.heir = this.heir;
    for (const [key, id] of this.ids) copy.ids.set(key, id);
    return copy;
  }

  /** Whether another key than the authority makes the first seals. */
  private get split(): boolean {
    return this.first !== this.authority;
  }

  /** The authority so far: of line 1, or the last heir. */
  authoritySoFar(): string {
    return this.heir ?? this.authority;
  }

  /** The key of this id, if it may seal now, in the first of its roles. */
  maySeal(id: string): SealingKey | null {
    const is = (key: string | null): key is string => key !== null && this.idOf(key) === id;
    if (this.heir !== null) return is(this.heir) ? { key: this.heir, role: "heir" } : null;
    if (is(this.current)) return { key: this.current, role: "current" };
    if (is(this.next)) return { key: this.next, role: "next" };
    for (const key of this.delegates) if (is(key)) return { key, role: "delegate" };
    if (this.split && is(this.authority)) return { key: this.authority, role: "authority" };
    return null;
  }

  /** Whether a seal by this key may name the next key. */
  mayNameNext(by: SealingKey, next: string): boolean {
    if (by.role === "delegate" || by.role === "heir") return false;
    return !this.isTaken(next) && !(by.role === "next" && next === by.key);
  }

  /** The effect of a good seal. */
  sealed(by: SealingKey, next: string | null, final: boolean): void {
    if (by.role === "next") {
      this.replaceCurrent(by.key);
      this.next = null;
    }
    if (next !== null) {
      this.replaceCurrent(next);
      this.next = null;
    } else if (by.role === "current" && this.announced !== null) {
      this.next = this.announced;
      this.announced = null;
    }
    if (final) this.ended();
  }

  /** `key {"next":K}`; false where it is refused. */
  announce(key: string): boolean {
    if (this.isTaken(key)) return false;
    this.announced = key;
    return true;
  }

  /** `delegation`, its signature being good; false where it is refused. */
  delegate(key: string): boolean {
    if (this.givenUp.has(key)) return false;
    if (!this.delegates.has(key) && this.delegates.size >= MAX_RECORD_KEYS) return false;
    this.delegates.add(key);
    return true;
  }

  /** `authority`, its signature being good; false where it is refused. */
  inherit(key: string): boolean {
    if (this.isTaken(key) || key === this.heir) return false;
    this.giveUpCurrent();
    this.givenUp.add(this.authoritySoFar());
    this.dropOthers();
    this.heir = key;
    return true;
  }

  /** Whether the record has more keys than it may. */
  tooMany(): boolean {
    const roles = [this.current, this.next, this.announced, this.authoritySoFar()].filter((key) => key !== null);
    return this.givenUp.size + this.delegates.size + roles.length > MAX_RECORD_KEYS;
  }

  private idOf(key: string): string {
    let id = this.ids.get(key);
    if (id === undefined) {
      id = hex(keyId(rawKey(key)));
      this.ids.set(key, id);
    }
    return id;
  }

  /** Current, authority or given up. */
  private isTaken(key: string): boolean {
    return key === this.current || key === this.authority || this.givenUp.has(key);
  }

  private replaceCurrent(key: string): void {
    this.giveUpCurrent();
    this.current = key;
    this.announced = null;
  }

  private giveUpCurrent(): void {
    if (this.current === null) return;
    this.givenUp.add(this.current);
    this.delegates.delete(this.current);
    this.current = null;
  }

  private dropOthers(): void {
    this.next = null;
    this.announced = null;
    this.delegates.clear();
  }

  /** A final seal: delegates end, and where the authority is another key, all keys but it. */
  private ended(): void {
    this.delegates.clear();
    if (!this.split || this.heir !== null) return;
    this.giveUpCurrent();
    this.next = null;
    this.announced = null;
  }
}
