//! The owner of a home, its contents, and when nothing is read from it.

use super::*;
use crate::owned_files::read_private_key_file;
use crate::sys::{Metadata, RealFs};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use threadseal_core::error::ErrorKind;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn new_home(folder: &Path) -> Home {
    Home::create(RealFs::shared(), &folder.join("deep/home")).unwrap()
}

fn name(text: &str) -> KeyFileName {
    KeyFileName::parse(text).unwrap()
}

#[test]
fn the_default_place_follows_the_xdg_rules() {
    let path = |own: &str, xdg: &str, home: &str| {
        let [own, xdg, home] = [own, xdg, home].map(OsStr::new);
        default_path(Some(own), Some(xdg), Some(home))
    };
    let is = |text: &str| Ok(PathBuf::from(text));
    assert_eq!(path("/own", "/xdg", "/home/u"), is("/own"));
    assert_eq!(path("", "/xdg", "/home/u"), is("/xdg/threadseal"));
    let in_home = "/home/u/.local/share/threadseal";
    assert_eq!(path("", "", "/home/u"), is(in_home));
    assert_eq!(path("", "relative", "/home/u"), is(in_home));
    for refused in [
        path("", "", ""),
        path("own", "/xdg", "/home/u"),
        path("", "", "u"),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert!(default_path(None, None, None).is_err());
}

#[test]
fn a_home_is_its_users_alone_and_can_be_made_twice() {
    let folder = tempfile::tempdir().unwrap();
    let home = new_home(folder.path());
    for part in ["", "keys", "heads"] {
        assert_eq!(mode_of(&home.path().join(part)), 0o700, "{part:?}");
    }
    assert_eq!(new_home(folder.path()).path(), home.path());
    assert_eq!(home.read_trust().unwrap(), None);
    assert_eq!(home.read_config().unwrap(), None);
    home.write_trust(b"# nobody\n").unwrap();
    assert_eq!(mode_of(&home.trust_path()), 0o600);
    assert_eq!(home.read_trust().unwrap().unwrap(), b"# nobody\n");
    let absent = Home::open(RealFs::shared(), &folder.path().join("absent")).unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_home_into_which_others_may_write_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let home = new_home(folder.path());
    for (part, mode) in [("", 0o770), ("keys", 0o702), ("heads", 0o722)] {
        let path = home.path().join(part);
        set_mode(&path, mode);
        let error = Home::open(RealFs::shared(), home.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("chmod go-w"), "{error}");
        set_mode(&path, 0o700);
    }
    home.write_trust(b"x").unwrap();
    set_mode(&home.trust_path(), 0o666);
    assert!(home.read_trust().is_err());
}

#[test]
fn a_home_that_strangers_could_swap_is_refused_unless_the_directory_is_sticky() {
    let folder = tempfile::tempdir().unwrap();
    let home = new_home(folder.path());
    let above = folder.path().join("deep");
    set_mode(&above, 0o777);
    let error = Home::open(RealFs::shared(), home.path()).unwrap_err();
    assert!(error.to_string().contains("any user may write"), "{error}");
    set_mode(&above, 0o1777);
    Home::open(RealFs::shared(), home.path()).unwrap();
}

#[test]
fn a_home_of_somebody_else_is_refused() {
    #[derive(Debug)]
    struct SomebodyElse(crate::fault::FaultFs);
    impl Fs for SomebodyElse {
        fn open(&self, path: &Path, access: sys::Access) -> io::Result<Arc<dyn sys::FileHandle>> {
            self.0.open(path, access)
        }
        fn metadata(&self, path: &Path) -> io::Result<Metadata> {
            self.0.metadata(path)
        }
        fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
            self.0.symlink_metadata(path)
        }
        fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
            self.0.canonicalize(path)
        }
        fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
            self.0.read_link(path)
        }
        fn read_dir(&self, path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
            self.0.read_dir(path)
        }
        fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
            self.0.create_dir(path, mode)
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.0.rename(from, to)
        }
        fn rename_no_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.0.rename_no_replace(from, to)
        }
        fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.0.hard_link(from, to)
        }
        fn unlink(&self, path: &Path) -> io::Result<()> {
            self.0.unlink(path)
        }
        fn sync_dir(&self, path: &Path) -> io::Result<()> {
            self.0.sync_dir(path)
        }
        fn effective_uid(&self) -> u32 {
            self.0.effective_uid() + 1
        }
        fn lock_holder(&self, identity: sys::FileIdentity) -> Option<u32> {
            self.0.lock_holder(identity)
        }
    }
    let disk = crate::fault::FaultFs::new();
    let path = Path::new("/home");
    let home = Home::create(disk.shared(), path).unwrap();
    let made = home.keys().create(&name("mine"), b"secret", b"public");
    made.unwrap();
    let other: Arc<dyn Fs> = Arc::new(SomebodyElse(disk));
    let error = Home::open(Arc::clone(&other), path).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("belongs to user 1000"), "{error}");
    let key = read_private_key_file(&*other, &home.keys().private_path(&name("mine")));
    assert_eq!(key.unwrap_err().kind(), ErrorKind::Key);
}

// T-KEY-08
#[test]
fn a_home_inside_the_verified_tree_is_seen_through_links_and_spellings() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("tree/project/deep")).unwrap();
    fs::create_dir_all(at("outside/home")).unwrap();
    symlink(at("tree/project"), at("link-in")).unwrap();
    symlink(at("outside"), at("tree/link-out")).unwrap();
    symlink(at("tree"), at("link-to-tree")).unwrap();
    symlink(at("tree/link-out"), at("link-to-link-out")).unwrap();
    let tree = at("tree");
    for (path, inside) in [
        ("tree", true),
        ("tree/project/deep", true),
        ("tree/project/absent/home", true),
        ("outside/../tree/project", true),
        ("link-in/home/absent", true),
        ("tree/link-out/home", true),
        ("link-to-link-out/home", true),
        ("outside/home", false),
        ("outside/absent", false),
        ("tree-like", false),
    ] {
        for tree in [&tree, &at("link-to-tree"), &at("tree/project/..")] {
            let found = is_inside(&RealFs, &at(path), tree).unwrap();
            assert_eq!(found, inside, "{path}");
        }
    }
    assert!(is_inside(&RealFs, &tree, &at("absent")).is_err());
    assert!(is_inside(&RealFs, &at("outside/absent/../../tree/x"), &tree).is_err());
}

#[test]
fn links_in_circles_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    symlink("b", folder.path().join("a")).unwrap();
    symlink("a", folder.path().join("b")).unwrap();
    assert!(is_inside(&RealFs, &folder.path().join("a"), folder.path()).is_err());
}

#[test]
fn a_dangling_link_on_the_way_to_a_home_is_an_error_not_outside() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let link = folder.path().join("link");
    symlink(tree.join("later"), &link).unwrap();
    assert!(is_inside(&RealFs, &link.join("home"), &tree).is_err());
    fs::create_dir(tree.join("later")).unwrap();
    assert!(is_inside(&RealFs, &link.join("home"), &tree).unwrap());
}

#[test]
fn key_names_that_would_leave_the_folder_or_mislead_are_refused() {
    for good in ["native", "rye-2", "a.b_c", "0", &"x".repeat(64)] {
        assert!(KeyFileName::parse(good).is_ok(), "{good}");
    }
    let long = "x".repeat(65);
    let bad = ",.,..,../x,a/b,A,-x,.x,x.,x.key,x.pub,é,a b,a\0".split(',');
    for bad in bad.chain([&*long]) {
        assert!(KeyFileName::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn keys_are_made_once_listed_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let keys = new_home(folder.path()).keys();
    keys.create(&name("native"), b"secret", b"public").unwrap();
    keys.create_public(&name("colleague"), b"theirs").unwrap();
    fs::write(keys.private_path(&name("x")).with_extension("bak"), "").unwrap();
    assert_eq!(mode_of(&keys.private_path(&name("native"))), 0o600);
    assert_eq!(keys.read_private(&name("native")).unwrap(), b"secret");
    assert_eq!(keys.read_public(&name("native")).unwrap(), b"public");
    let entry = |text: &str, has_private| KeyEntry {
        name: name(text),
        has_private,
        has_public: true,
    };
    let expected = [entry("colleague", false), entry("native", true)];
    assert_eq!(keys.list().unwrap(), expected);
    for taken in ["native", "colleague"] {
        let error = keys.create(&name(taken), b"new", b"new").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("never replaced"), "{error}");
    }
    assert_eq!(keys.read_private(&name("native")).unwrap(), b"secret");
    assert!(keys.read_private(&name("colleague")).is_err());
}

#[test]
fn a_private_key_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let keys = new_home(folder.path()).keys();
    keys.create(&name("k"), b"secret", b"public").unwrap();
    for mode in [0o640, 0o604, 0o620, 0o601] {
        set_mode(&keys.private_path(&name("k")), mode);
        let error = keys.read_private(&name("k")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Key);
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    set_mode(&keys.private_path(&name("k")), 0o400);
    assert_eq!(keys.read_private(&name("k")).unwrap(), b"secret");
    set_mode(&keys.public_path(&name("k")), 0o666);
    assert!(keys.read_public(&name("k")).is_err());
}

#[test]
fn a_key_that_could_not_be_made_leaves_its_name_free() {
    use crate::fault::{FaultFs, FaultKind};
    for call in 0.. {
        let disk = FaultFs::new();
        let home = Home::create(disk.shared(), Path::new("/home"));
        let keys = home.unwrap().keys();
        disk.plan(call, FaultKind::NoSpace);
        let made = keys.create(&name("k"), b"secret", b"public").is_ok();
        let Some(struck) = disk.struck() else {
            assert!(made);
            return;
        };
        let count = keys.list().unwrap().len();
        assert_eq!(count, usize::from(made), "{struck} at {call}");
        assert_eq!(keys.create(&name("k"), b"secret", b"public").is_ok(), !made);
    }
}
