// Pages and their addresses: what follows `#` in the address, so that a page from a disk has them too.

export interface Page {
  readonly element: HTMLElement;
  readonly title: string;
  /** Keys that the page knows, for the help. */
  readonly keys: readonly (readonly [string, string])[];
  /** Whether the key was used. */
  key(event: KeyboardEvent): boolean;
  print?(isPrinting: boolean): void;
  close(): void;
}

export type Route =
  | { readonly page: "list"; readonly query?: string }
  | { readonly page: "session"; readonly id: string; readonly log: string | null; readonly turn: number | null; readonly query?: string }
  | { readonly page: "search"; readonly query: string }
  | { readonly page: "compare"; readonly a: string; readonly b: string }
  | { readonly page: "drawing"; readonly kind: "graphs" | "lineages"; readonly id: string }
  | { readonly page: "verify" };

export function routeText(route: Route): string {
  const part = encodeURIComponent;
  switch (route.page) {
    case "list":
      return route.query ? `#/?q=${part(route.query)}` : "#/";
    case "session": {
      const turn = route.turn === null ? "" : `/turn/${route.turn}`;
      const log = route.log === null ? (turn === "" ? "" : `/${part(route.id)}`) : `/${part(route.log)}`;
      return `#/s/${part(route.id)}${log}${turn}${route.query ? `?q=${part(route.query)}` : ""}`;
    }
    case "search":
      return `#/search?q=${part(route.query)}`;
    case "compare":
      return `#/compare?a=${part(route.a)}&b=${part(route.b)}`;
    case "drawing":
      return `#/${route.kind}/${part(route.id)}`;
    case "verify":
      return "#/verify";
  }
}

export function routeOf(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?");
  const asked = new URLSearchParams(query);
  const parts = path.split("/").map(decoded);
  switch (parts[0]) {
    case "s": {
      const turn = parts.indexOf("turn", 2);
      const logParts = parts.slice(2, turn < 0 ? undefined : turn);
      const number = turn < 0 ? NaN : Number(parts[turn + 1]);
      const words = asked.get("q");
      return {
        page: "session", id: parts[1] ?? "", log: logParts.length === 0 ? null : logParts.join("/"), turn: Number.isInteger(number) ? number : null,
        ...(words === null ? {} : { query: words }),
      };
    }
    case "search":
      return { page: "search", query: asked.get("q") ?? "" };
    case "compare":
      return { page: "compare", a: asked.get("a") ?? "", b: asked.get("b") ?? "" };
    case "graphs":
    case "lineages":
      return { page: "drawing", kind: parts[0], id: parts[1] ?? "" };
    case "verify":
    case "proof":
      return { page: "verify" };
    default:
      return { page: "list", query: asked.get("q") ?? "" };
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
