// The plugin for OpenCode: it reports each turn and each tool to the command `threadseal`, which seals the session.

/** What the plugin uses of OpenCode's types. */
export interface OpenCodeInput {
  directory: string;
}

export interface OpenCodeHooks {
  event: (input: { event: { type: string; properties?: any } }) => Promise<void>;
  "tool.execute.after": (input: { tool: string; sessionID: string; callID: string }) => Promise<void>;
  dispose: () => Promise<void>;
}

/** A plugin of OpenCode: `export { ThreadSeal } from "threadseal/opencode"` in `.opencode/plugin/threadseal.js`. */
export declare const ThreadSeal: (input: OpenCodeInput) => Promise<OpenCodeHooks>;
