declare module "*.txt" {
  const text: string;
  export default text;
}

/** The glue of the WebAssembly module, or wasm-absent.ts where it was not built. */
declare module "threadseal-wasm";

declare module "*.jsonl" {
  const text: string;
  export default text;
}
