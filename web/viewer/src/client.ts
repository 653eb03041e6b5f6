// The page's side of the worker.

import type { Answer, Asked, ProofPlace } from "./core.js";
import type { Batch, Found, Full } from "./read/session.js";
import type { Request, Source } from "./worker.js";

export interface Progress {
  readonly bytes: number;
  readonly size: number;
  readonly pass: number;
}

export type Timed = Found & { readonly milliseconds: number };

interface Waiting {
  readonly resolve: (value: any) => void;
  readonly reject: (error: Error) => void;
  readonly onBatch?: (batch: Batch) => void;
  readonly onProgress?: (progress: Progress) => void;
}

/** Begins a worker: of a page that is served by its address, of one file by a blob. */
export interface Assets {
  worker(): Promise<Worker>;
  /** The WebAssembly module, compiled once; null where it is not built in. */
  module(): Promise<WebAssembly.Module | null>;
}

export class Client {
  private readonly waiting = new Map<number, Waiting>();
  private last = 0;

  private constructor(private readonly worker: Worker) {
    worker.onmessage = (event: MessageEvent) => this.receive(event.data);
    worker.onerror = (event) => {
      for (const one of this.waiting.values()) one.reject(new Error(event.message || "the worker stopped"));
      this.waiting.clear();
    };
  }

  static async begin(assets: Assets): Promise<Client> {
    return new Client(await assets.worker());
  }

  module(module: WebAssembly.Module | null): Promise<void> {
    return this.ask({ op: "module", module });
  }

  open(source: Source, bodies: Uint8Array | null, onBatch: (batch: Batch) => void): Promise<{ size: number; etag: string | null }> {
    return this.ask({ op: "open", source, bodies }, { onBatch });
  }

  more(url: string, bodies: Uint8Array | null, onBatch: (batch: Batch) => void): Promise<{ size: number; etag: string | null }> {
    return this.ask({ op: "more", url, bodies }, { onBatch });
  }

  full(i: number): Promise<Full | null> {
    return this.ask({ op: "full", i });
  }

  search(query: string): Promise<Timed> {
    return this.ask({ op: "search", query });
  }

  slice(at: number, end: number): Promise<Uint8Array> {
    return this.ask({ op: "slice", at, end });
  }

  text(): Promise<string> {
    return this.ask({ op: "text" });
  }

  plain(logs: readonly { readonly log: string; readonly bytes: Uint8Array }[]): Promise<string | null> {
    return this.ask({ op: "plain", logs });
  }

  turns(bytes: Uint8Array): Promise<Uint32Array | null> {
    return this.ask({ op: "turns", bytes }, {}, [bytes.buffer as ArrayBuffer]);
  }

  feed(port: MessagePort): Promise<void> {
    return this.ask({ op: "feed", port }, {}, [port]);
  }

  prove(asked: Asked, place: ProofPlace): Promise<Uint8Array> {
    return this.ask({ op: "prove", asked, place });
  }

  verify(asked: Asked, port: MessagePort, size: number, onProgress: (progress: Progress) => void): Promise<Answer[]> {
    return this.ask({ op: "verify", asked, port, size }, { onProgress }, [port]);
  }

  end(): void {
    this.worker.terminate();
    for (const one of this.waiting.values()) one.reject(new Error("the page was left"));
    this.waiting.clear();
  }

  private ask<T>(request: Request, listeners: Pick<Waiting, "onBatch" | "onProgress"> = {}, transfer: Transferable[] = []): Promise<T> {
    const id = ++this.last;
    return new Promise<T>((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, ...listeners });
      this.worker.postMessage({ id, request }, transfer);
    });
  }

  private receive(message: { id: number; value?: unknown; error?: string; batch?: Batch; progress?: Progress }): void {
    const one = this.waiting.get(message.id);
    if (one === undefined) return;
    if (message.batch !== undefined) return one.onBatch?.(message.batch);
    if (message.progress !== undefined) return one.onProgress?.(message.progress);
    this.waiting.delete(message.id);
    if (message.error !== undefined) one.reject(new Error(message.error));
    else one.resolve(message.value);
  }
}
