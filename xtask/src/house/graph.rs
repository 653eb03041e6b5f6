//! The modules of a package, and the arrows between them: which module uses what another defines.
//!
//! A module is a file. An arrow leads to the module that defines a name, through re-exports. Only
//! what ships counts.

use crate::tidy::direction;
use crate::tidy::modules;
use crate::tidy::repository::Repository;
use crate::tidy::rust::{self, Item};
use std::collections::{BTreeMap, BTreeSet};

/// Re-exports that are followed one after the other; no real chain is longer.
const MAX_HOPS: usize = 8;

/// One file that ships.
pub(super) struct Node {
    pub(super) file: String,
    pub(super) names: Vec<String>,
    pub(super) items: Vec<Item>,
    code: String,
    /// Paths that it uses, from the root of the package.
    paths: Vec<Vec<String>>,
}

impl Node {
    pub(super) fn defines(&self, name: &str) -> bool {
        let named = |item: &&Item| !item.member && !matches!(&*item.keyword, "use" | "impl");
        self.items
            .iter()
            .filter(named)
            .any(|item| item.name == name)
    }
}

/// The modules of one package, in the order of their names.
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    places: BTreeMap<Vec<String>, usize>,
    /// For each module the modules that it uses, without itself.
    pub(super) arrows: Vec<BTreeSet<usize>>,
    /// The top modules in the table of the root, lowest first; empty without such a table.
    order: Vec<String>,
}

impl Graph {
    /// The modules that are reached from the file `root`.
    pub(super) fn new(repository: &Repository, root: &str) -> Self {
        let mut nodes: Vec<Node> = modules::reached(repository, root)
            .into_iter()
            .filter(|module| !module.test)
            .map(|module| {
                let code = rust::shipped(repository.text(&module.file).unwrap_or_default());
                Node {
                    paths: used(&code, &module.names),
                    items: rust::items(&code),
                    names: module.names,
                    file: module.file,
                    code,
                }
            })
            .collect();
        nodes.sort_by(|a, b| a.names.cmp(&b.names));
        let text = repository.text(root).unwrap_or_default();
        let ordered = text.contains("lowest first");
        let order = direction::order(text).into_iter().filter(|_| ordered);
        let place = |(at, node): (usize, &Node)| (node.names.clone(), at);
        let mut graph = Self {
            places: nodes.iter().enumerate().map(place).collect(),
            order: order.map(str::to_owned).collect(),
            arrows: Vec::new(),
            nodes,
        };
        for at in 0..graph.nodes.len() {
            let more = graph.through_imports(&graph.nodes[at]);
            graph.nodes[at].paths.extend(more);
        }
        graph.arrows = (0..graph.nodes.len())
            .map(|at| graph.arrows_of(at))
            .collect();
        graph
    }

    /// Paths that begin with the name of an imported module.
    fn through_imports(&self, node: &Node) -> Vec<Vec<String>> {
        let imported = node
            .paths
            .iter()
            .filter(|path| self.places.contains_key(*path));
        let names: BTreeMap<_, _> = imported
            .filter_map(|path| Some((path.last()?, path)))
            .collect();
        let mut out = Vec::new();
        for (name, path) in names {
            let used = rust::paths(&node.code, name).into_iter();
            out.extend(used.map(|used| [path.as_slice(), &used.segments].concat()));
        }
        out
    }

    fn arrows_of(&self, at: usize) -> BTreeSet<usize> {
        let paths = self.nodes[at].paths.iter();
        let targets = paths.map(|path| self.owner(path));
        targets.filter(|target| *target != at).collect()
    }

    /// The module that `path` leads to: the one with the definition, else the deepest on the way.
    fn owner(&self, path: &[String]) -> usize {
        self.definer(path, MAX_HOPS)
            .unwrap_or_else(|| self.deepest(path).0)
    }

    /// The module that defines what `path` names.
    fn definer(&self, path: &[String], hops: usize) -> Option<usize> {
        let (at, taken) = self.deepest(path);
        let Some(name) = path.get(taken) else {
            return Some(at);
        };
        let node = &self.nodes[at];
        if node.defines(name) {
            return Some(at);
        }
        let hops = hops.checked_sub(1)?;
        let follow = |start: &[String], rest: usize| {
            let next = [start, &path[rest..]].concat();
            (next != path).then(|| self.definer(&next, hops)).flatten()
        };
        let named = node.paths.iter().filter(|used| used.last() == Some(name));
        let all = node
            .paths
            .iter()
            .filter_map(|used| used.strip_suffix(&["*".to_owned()]));
        named
            .into_iter()
            .find_map(|used| follow(used, taken + 1))
            .or_else(|| all.into_iter().find_map(|used| follow(used, taken)))
    }

    /// The deepest module on `path`, and how many segments lead to it.
    fn deepest(&self, path: &[String]) -> (usize, usize) {
        let known = |taken: usize| Some((*self.places.get(&path[..taken])?, taken));
        (0..=path.len()).rev().find_map(known).unwrap_or_default()
    }

    /// The module in which module `at` finds the type of the path `name`.
    pub(super) fn type_of(&self, at: usize, name: &str) -> (usize, String) {
        let segments: Vec<&str> = name.split("::").collect();
        let last = segments.last().copied().unwrap_or_default();
        let code = format!("{name};");
        let mut path = used(&code, &self.nodes[at].names).into_iter().next();
        if segments.len() == 1 {
            path = Some([&*self.nodes[at].names, &[last.to_owned()]].concat());
        }
        (path.map_or(at, |path| self.owner(&path)), last.to_owned())
    }

    /// Circles of more than one module, by their first.
    pub(super) fn circles(&self) -> Vec<Vec<usize>> {
        let reach: Vec<BTreeSet<usize>> = (0..self.nodes.len()).map(|at| self.reach(at)).collect();
        let mut out: Vec<Vec<usize>> = Vec::new();
        for (at, reached) in reach.iter().enumerate() {
            let back = |other: &usize| reach[*other].contains(&at);
            let circle: Vec<usize> = reached.iter().copied().filter(back).collect();
            if circle.len() > 1 && circle[0] == at {
                out.push(circle);
            }
        }
        out
    }

    fn reach(&self, from: usize) -> BTreeSet<usize> {
        let mut out = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(at) = waiting.pop() {
            waiting.extend(self.arrows[at].iter().filter(|next| !out.contains(*next)));
            out.insert(at);
        }
        out
    }

    /// Arrows to a top module that the table orders later; none without a table.
    pub(super) fn against_table(&self) -> Option<Vec<String>> {
        let place = |at: usize| {
            let top = self.nodes[at].names.first()?;
            self.order.iter().position(|name| name == top)
        };
        let upward = |(from, to): &(usize, usize)| {
            let places = place(*from).zip(place(*to));
            places.is_some_and(|(from, to)| from < to)
        };
        let arrows = self.all_arrows().filter(upward);
        let text = |(from, to)| format!("{} -> {}", self.name(from), self.name(to));
        (!self.order.is_empty()).then(|| arrows.map(text).collect())
    }

    /// Pairs of modules in one folder that use each other, with what is in them.
    pub(super) fn mutual(&self) -> Vec<String> {
        let mut pairs: BTreeMap<(&[String], &[String]), usize> = BTreeMap::new();
        for (from, to) in self.all_arrows() {
            let (a, b) = (&self.nodes[from].names, &self.nodes[to].names);
            let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
            if same < a.len().min(b.len()) {
                *pairs.entry((&a[..=same], &b[..=same])).or_default() += 1;
            }
        }
        let both = pairs.iter().filter_map(|((a, b), there)| {
            let back = pairs.get(&(*b, *a)).filter(|_| a < b)?;
            Some(format!(
                "{} <-> {} ({there} and {back})",
                a.join("::"),
                b.join("::")
            ))
        });
        both.collect()
    }

    fn all_arrows(&self) -> impl Iterator<Item = (usize, usize)> {
        let sets = self.arrows.iter().enumerate();
        sets.flat_map(|(from, targets)| targets.iter().map(move |to| (from, *to)))
    }

    pub(super) fn name(&self, at: usize) -> String {
        match self.nodes[at].names.as_slice() {
            [] => "crate".to_owned(),
            names => names.join("::"),
        }
    }
}

/// The paths that `code` of the module `names` uses inside its package, from the root.
fn used(code: &str, names: &[String]) -> Vec<Vec<String>> {
    let children = rust::declared_modules(code).into_iter();
    let roots = ["crate", "self", "super"].into_iter().chain(children);
    let mut out = Vec::new();
    for root in roots {
        for path in rust::paths(code, root) {
            let up = match root {
                "crate" => names.len(),
                "super" => path.depth,
                _ => 0,
            };
            let Some(length) = names.len().checked_sub(up) else {
                continue;
            };
            let mut whole = names[..length].to_vec();
            if !matches!(root, "crate" | "self" | "super") {
                whole.push(root.to_owned());
            }
            whole.extend(path.segments.into_iter().filter(|name| name != "self"));
            out.push(whole);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "//! lowest first\n//! | [`a`] | x |\n//! | [`b`] | y |\nmod a;\nmod b;\n";

    fn graph(a: &str, c: &str, d: &str) -> Graph {
        let repository = Repository::from([
            ("p/src/lib.rs", ROOT),
            ("p/src/a.rs", a),
            (
                "p/src/b/mod.rs",
                "mod c;\nmod d;\npub use c::C;\npub use d::*;\n",
            ),
            ("p/src/b/c.rs", c),
            ("p/src/b/d.rs", d),
        ]);
        Graph::new(&repository, "p/src/lib.rs")
    }

    /// The circles as text.
    fn circles(graph: &Graph) -> Vec<String> {
        let name = |circle: &Vec<usize>| {
            let names: Vec<_> = circle.iter().map(|at| graph.name(*at)).collect();
            names.join(" ")
        };
        graph.circles().iter().map(name).collect()
    }

    const C: &str = "pub struct C;";
    const D: &str = "pub struct D;";
    const NONE: [&str; 0] = [];

    #[test]
    fn modules_that_use_each_other_are_a_circle() {
        assert_eq!(circles(&graph("", C, D)), NONE);
        assert_eq!(
            circles(&graph("use crate::b::E;", "use crate::a::A;", D)),
            ["a b b::c"]
        );
        let tests = "#[cfg(test)]\nmod tests { use crate::a::A; }";
        assert_eq!(circles(&graph("use crate::b::E;", tests, D)), NONE);
    }

    #[test]
    fn an_arrow_leads_through_re_exports_to_the_definition() {
        let through_name = graph("", C, "use super::C;");
        assert_eq!(circles(&through_name), NONE);
        let through_glob = graph("", "use super::D;", D);
        assert_eq!(circles(&through_glob), NONE);
        let through_module = graph("pub struct A;", "pub use crate::a;", "use super::c::a::A;");
        let targets = &through_module.arrows[4];
        assert_eq!(targets.iter().collect::<Vec<_>>(), [&1], "module a");
        assert_eq!(
            circles(&graph("", "use super::D;", "use super::C;")),
            ["b b::c b::d"]
        );
        assert_eq!(circles(&graph("", "use super::NotThere;", D)), ["b b::c"]);
    }

    #[test]
    fn an_arrow_leads_through_an_imported_module() {
        let graph = graph("use crate::b;\nfn f() { b::C::new(); }", C, D);
        let targets = graph.arrows[1].iter().map(|at| graph.name(*at));
        assert_eq!(targets.collect::<Vec<_>>(), ["b", "b::c"]);
    }

    #[test]
    fn an_arrow_to_a_later_module_of_the_table_is_upward() {
        let upward = graph("fn f(_: crate::b::C) {}", C, D);
        assert_eq!(upward.against_table().unwrap(), ["a -> b::c"]);
        let down = graph("pub struct A;", "use crate::a::A;", D);
        assert_eq!(down.against_table().unwrap(), NONE);
        let repository = Repository::from([("p/src/lib.rs", "//! | [`a`] | x |\nmod a;")]);
        assert_eq!(
            Graph::new(&repository, "p/src/lib.rs").against_table(),
            None
        );
    }

    #[test]
    fn siblings_that_use_each_other_are_a_pair() {
        let one_way = graph("", "pub struct C;\nuse super::D;", D);
        assert_eq!(one_way.mutual(), NONE);
        let both = graph(
            "",
            "pub struct C;\nuse super::d::D;",
            "pub struct D;\nuse super::c::C;",
        );
        assert_eq!(both.mutual(), ["b::c <-> b::d (1 and 1)"]);
        let folders = graph(
            "use crate::b::C;\npub struct A;",
            "pub struct C;\nuse crate::a::A;",
            D,
        );
        assert_eq!(folders.mutual(), ["a <-> b (1 and 1)"]);
    }

    #[test]
    fn a_type_is_found_where_it_is_defined() {
        let graph = graph("use crate::b::C;\nstruct A;", C, D);
        let file = |name| graph.name(graph.type_of(1, name).0);
        assert_eq!(file("A"), "a");
        assert_eq!(file("C"), "b::c");
        assert_eq!(file("super::b::D"), "b::d");
    }
}
