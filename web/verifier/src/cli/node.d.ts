// The few parts of Node that the command line uses: the package needs no types but these.

declare module "node:fs" {
  export function createReadStream(path: string, options?: { highWaterMark?: number }): AsyncIterable<Uint8Array>;
  export function readFileSync(path: string): Uint8Array;
}

declare module "node:process" {
  interface Process {
    readonly stdin: AsyncIterable<Uint8Array>;
    readonly stdout: { write(text: string): boolean };
  }
  const process: Process;
  export default process;
}
