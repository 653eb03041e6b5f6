// Text without regard to case: full case folding, as the programs in Rust have it (CaseFolding.txt,
// status C and F). Letters that fold to several, as in "straße", have the places of the written text.

const ASCII = /^[\0-\x7f]*$/;

export function fold(words: string): string {
  return ASCII.test(words) ? words.toLowerCase() : Array.from(words, foldLetter).join("");
}

function foldLetter(letter: string): string {
  // The dotless letter of Turkish has no other case in that table.
  return letter === "ı" ? letter : letter.toLowerCase().toUpperCase().toLowerCase();
}

/** Where `words` has the folded `needle`: pairs of begin and end. */
export function placesOf(words: string, needle: string): [number, number][] {
  if (needle === "") return [];
  const written = new Map<number, number>();
  let [folded, at] = ["", 0];
  for (const letter of words) {
    written.set(folded.length, at);
    folded += foldLetter(letter);
    at += letter.length;
  }
  written.set(folded.length, at);
  const places: [number, number][] = [];
  for (let found = folded.indexOf(needle); found >= 0; found = folded.indexOf(needle, found + needle.length)) {
    const [from, to] = [written.get(found), written.get(found + needle.length)];
    if (from !== undefined && to !== undefined) places.push([from, to]);
  }
  return places;
}
