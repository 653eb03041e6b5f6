// The few parts of Node that the tests use: the package needs no types but these.

declare module "node:test" {
  export function test(name: string, run: () => void | Promise<void>): void;
  export function test(name: string, options: { skip: string | false }, run: () => void | Promise<void>): void;
}
declare module "node:assert/strict" {
  export function equal(actual: unknown, expected: unknown, message?: string): void;
  export function deepEqual(actual: unknown, expected: unknown, message?: string): void;
  export function ok(value: unknown, message?: string): asserts value;
}
declare module "node:fs" {
  export function readFileSync(path: string | URL): Uint8Array;
  export function readFileSync(path: string | URL, encoding: "utf8"): string;
  export function existsSync(path: string | URL): boolean;
}
declare module "node:process" {
  const process: { readonly env: Readonly<Record<string, string | undefined>> };
  export default process;
}
declare module "node:url" {
  export function fileURLToPath(url: URL): string;
}
