//! Installs and uninstalls in the folder of a user: edits, links, crashes.

use super::undo::{self, RemovalAction};
use super::*;
use crate::agent::machine::{System, tests::machine};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use threadseal_store::fault::{FaultFs, FaultKind, Keep};
use threadseal_store::sys::RealFs;

const CLAUDE: &str = "{\n  // mine\n  \"model\": \"opus\"\n}\n";

/// A user with a folder, and a home of ours.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn install(&self, agents: &[Agent], program: &str) -> Result<Vec<FilePlan>, Error> {
        install(&RealFs, self.folder.path(), agents, program)
    }

    fn uninstall(&self, owner: Option<Agent>) -> Vec<Result<Removal, Error>> {
        uninstall(&RealFs, self.folder.path(), owner)
    }
}

use super::undo::Removal;

fn install(
    fs: &dyn Fs,
    user: &Path,
    agents: &[Agent],
    program: &str,
) -> Result<Vec<FilePlan>, Error> {
    let machine = machine(user);
    let wish = Wish {
        machine: &machine,
        program: Path::new(program),
        home: None,
        strict: false,
    };
    let folder = user.join("home/capture");
    let journal = Journal::read(fs, &folder)?;
    let plan = |agent: &Agent| plan_agent(*agent, &wish, &journal, fs).transpose();
    let plans: Vec<FilePlan> = agents.iter().filter_map(plan).collect::<Result<_, _>>()?;
    apply(&plans, wish.program, &folder, fs)?;
    Ok(plans)
}

fn uninstall(fs: &dyn Fs, user: &Path, owner: Option<Agent>) -> Vec<Result<Removal, Error>> {
    let folder = user.join("home/capture");
    let journal = match Journal::read(fs, &folder) {
        Ok(journal) => journal,
        Err(error) => return vec![Err(error)],
    };
    let plans = undo::plan(owner, &machine(user), &journal, fs);
    let mut done: Vec<_> = plans.into_iter().map(|(_, plan)| plan).collect();
    let right: Vec<Removal> = done
        .iter()
        .filter_map(|plan| plan.as_ref().ok().cloned())
        .collect();
    if let Err(error) = undo::apply(&right, &folder, fs) {
        done.push(Err(error));
    }
    done
}

const HOOKED: [Agent; 6] = [
    Agent::ClaudeCode,
    Agent::Codex,
    Agent::Gemini,
    Agent::OpenCode,
    Agent::Copilot,
    Agent::Qwen,
];

// T-CAP-08
#[test]
fn an_uninstall_restores_each_file_byte_for_byte_and_leaves_no_folder() {
    let scene = Scene::new();
    scene.put(".claude/settings.json", CLAUDE);
    scene.put(".gemini/settings.json", "{}");
    scene.put(".copilot/config.json", "{}");
    let before = all_files(scene.folder.path());
    scene.install(&HOOKED, "/opt/threadseal").unwrap();
    assert!(scene.read(".claude/settings.json").contains("// mine"));
    assert!(scene.path(".config/opencode/plugin/threadseal.js").exists());
    let journal = scene.path("home/capture/installed.json");
    assert_eq!(
        fs::metadata(&journal).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let again = scene.install(&HOOKED, "/opt/threadseal").unwrap();
    assert!(again.iter().all(|plan| plan.action() == Action::Keep));
    for done in scene.uninstall(None) {
        done.unwrap();
    }
    fs::remove_dir_all(scene.path("home")).unwrap();
    assert_eq!(all_files(scene.folder.path()), before);
}

/// Files with their bytes, and folders.
fn all_files(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let walk = walkdir::WalkDir::new(folder).sort_by_file_name();
    walk.into_iter()
        .map(|entry| entry.unwrap().into_path())
        .map(|path| (path.clone(), fs::read(path).ok()))
        .collect()
}

// T-CAP-09
#[test]
fn an_edit_after_the_install_survives_the_uninstall() {
    let scene = Scene::new();
    scene.put(".claude/settings.json", CLAUDE);
    scene.install(&HOOKED, "/opt/threadseal").unwrap();
    let edited = scene
        .read(".claude/settings.json")
        .replace("opus", "sonnet");
    scene.put(".claude/settings.json", &edited);
    // A second install finds all in order, and does not take the edit for the state before.
    scene.install(&HOOKED, "/opt/threadseal").unwrap();
    for done in scene.uninstall(Some(Agent::ClaudeCode)) {
        let done = done.unwrap();
        assert!(matches!(
            done.action,
            RemovalAction::Strip { removed: 8, .. }
        ));
    }
    assert_eq!(
        scene.read(".claude/settings.json"),
        CLAUDE.replace("opus", "sonnet")
    );
    assert!(scene.path(".codex/hooks.json").exists());
    // What is not ours in a file that we made stays, too.
    scene.put(
        ".codex/hooks.json",
        &scene
            .read(".codex/hooks.json")
            .replacen('{', "{\n  \"description\": \"x\",", 1),
    );
    for done in scene.uninstall(None) {
        done.unwrap();
    }
    assert!(scene.read(".codex/hooks.json").contains("description"));
    assert!(!scene.read(".codex/hooks.json").contains("threadseal"));
}

// T-CAP-04
#[test]
fn another_place_of_the_program_replaces_the_hooks_and_the_way_back_stays_whole() {
    let scene = Scene::new();
    scene.put(".claude/settings.json", CLAUDE);
    scene.install(&HOOKED, "/old/threadseal").unwrap();
    let plans = scene.install(&HOOKED, "/new/threadseal-2").unwrap();
    assert!(plans.iter().all(|plan| plan.action() == Action::Edit));
    for name in [".claude/settings.json", ".copilot/hooks/threadseal.json"] {
        let text = scene.read(name);
        assert!(
            !text.contains("/old/") && text.contains("/new/threadseal-2"),
            "{text}"
        );
    }
    // An edited file whose program has a name of its own is recognised by the journal.
    let edited = scene.read(".claude/settings.json").replace("opus", "haiku");
    scene.put(".claude/settings.json", &edited);
    scene.install(&HOOKED, "/third/threadseal").unwrap();
    assert!(!scene.read(".claude/settings.json").contains("/new/"));
    for done in scene.uninstall(None) {
        done.unwrap();
    }
    assert_eq!(
        scene.read(".claude/settings.json"),
        CLAUDE.replace("opus", "haiku")
    );
    assert!(!scene.path(".codex").exists());
}

// T-CAP-05
#[test]
fn settings_that_are_no_json_are_refused_and_stay() {
    let scene = Scene::new();
    scene.put(".claude/settings.json", "{\n  \"model\": opus\n}\n");
    let refused = scene
        .install(&[Agent::ClaudeCode], "/opt/threadseal")
        .unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("settings.json") && text.contains("line 2"),
        "{text}"
    );
    assert_eq!(
        scene.read(".claude/settings.json"),
        "{\n  \"model\": opus\n}\n"
    );
    assert!(!scene.path("home").exists());
    fs::write(scene.path(".claude/settings.json"), b"{\"a\": \"\xff\"}").unwrap();
    let refused = scene
        .install(&[Agent::ClaudeCode], "/opt/threadseal")
        .unwrap_err();
    assert!(refused.to_string().contains("UTF-8"), "{refused}");
}

// T-CAP-10
#[test]
fn a_link_to_settings_stays_and_modes_stay() {
    let scene = Scene::new();
    scene.put("dotfiles/claude.json", CLAUDE);
    fs::create_dir(scene.path(".claude")).unwrap();
    let target = scene.path("dotfiles/claude.json");
    symlink(
        "../dotfiles/claude.json",
        scene.path(".claude/settings.json"),
    )
    .unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o644)).unwrap();
    scene
        .install(&[Agent::ClaudeCode], "/opt/threadseal")
        .unwrap();
    let is_link = || {
        fs::symlink_metadata(scene.path(".claude/settings.json"))
            .unwrap()
            .is_symlink()
    };
    let mode = || fs::metadata(&target).unwrap().permissions().mode() & 0o777;
    assert!(is_link() && mode() == 0o644);
    assert!(
        scene
            .read("dotfiles/claude.json")
            .contains("hook claude-code")
    );
    for done in scene.uninstall(None) {
        done.unwrap();
    }
    assert!(is_link() && mode() == 0o644);
    assert_eq!(scene.read("dotfiles/claude.json"), CLAUDE);
    symlink("/no/such/file", scene.path(".claude/dangling")).unwrap();
    fs::rename(
        scene.path(".claude/dangling"),
        scene.path(".claude/settings.json"),
    )
    .unwrap();
    assert!(
        scene
            .install(&[Agent::ClaudeCode], "/opt/threadseal")
            .is_err()
    );
}

// T-CAP-06
#[test]
fn a_file_of_ours_that_was_edited_is_neither_replaced_nor_removed() {
    let scene = Scene::new();
    let name = ".config/opencode/plugin/threadseal.js";
    scene.put(name, "export const Mine = 1\n");
    let refused = scene
        .install(&[Agent::OpenCode], "/opt/threadseal")
        .unwrap_err();
    assert!(
        refused.to_string().contains("no file of threadseal"),
        "{refused}"
    );
    fs::remove_file(scene.path(name)).unwrap();
    scene
        .install(&[Agent::OpenCode], "/opt/threadseal")
        .unwrap();
    let edited = format!("{}// more\n", scene.read(name));
    scene.put(name, &edited);
    let refused = scene
        .install(&[Agent::OpenCode], "/opt/threadseal")
        .unwrap_err();
    assert!(refused.to_string().contains("was edited"), "{refused}");
    let done = scene.uninstall(None);
    assert!(
        done[0]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("hint: rm")
    );
    assert_eq!(scene.read(name), edited);
    // The journal still names it, so a later uninstall knows of it.
    assert_eq!(scene.uninstall(None).len(), 1);
    // Without a journal, an unedited one is recognised by its first line.
    fs::remove_dir_all(scene.path("home")).unwrap();
    scene.put(name, &edited.replace("// more\n", ""));
    assert!(scene.uninstall(None)[0].is_ok());
    assert!(!scene.path(name).exists());
}

#[test]
fn hooks_of_a_home_that_is_gone_are_removed() {
    let scene = Scene::new();
    scene.put(".claude/settings.json", CLAUDE);
    scene
        .install(&[Agent::ClaudeCode, Agent::Copilot], "/opt/threadseal")
        .unwrap();
    fs::remove_dir_all(scene.path("home")).unwrap();
    let done = scene.uninstall(None);
    assert_eq!(done.len(), 2);
    assert!(!scene.path("home").exists());
    assert_eq!(scene.read(".claude/settings.json"), CLAUDE);
    assert!(!scene.path(".copilot/hooks/threadseal.json").exists());
}

// T-CAP-11
#[test]
fn a_file_that_changes_after_its_plan_is_not_written() {
    let scene = Scene::new();
    scene.put(".claude/settings.json", CLAUDE);
    let machine = machine(scene.folder.path());
    let wish = Wish {
        machine: &machine,
        program: Path::new("/opt/threadseal"),
        home: None,
        strict: false,
    };
    let folder = scene.path("home/capture");
    let journal = Journal::read(&RealFs, &folder).unwrap();
    let plan = plan_agent(Agent::ClaudeCode, &wish, &journal, &RealFs)
        .unwrap()
        .unwrap();
    scene.put(".claude/settings.json", "{\"model\": \"new\"}");
    let refused = apply(&[plan], wish.program, &folder, &RealFs).unwrap_err();
    assert!(
        refused.to_string().contains("changed meanwhile"),
        "{refused}"
    );
    assert_eq!(scene.read(".claude/settings.json"), "{\"model\": \"new\"}");
    scene
        .install(&[Agent::ClaudeCode], "/opt/threadseal")
        .unwrap();
    for done in scene.uninstall(None) {
        done.unwrap();
    }
    assert_eq!(scene.read(".claude/settings.json"), "{\"model\": \"new\"}");
}

/// A disk with the settings of a user.
fn disk() -> FaultFs {
    let disk = FaultFs::new();
    let path = Path::new("/u/.claude/settings.json");
    atomic::create_directories(&disk, directory_of(path), 0o700).unwrap();
    atomic::create_new(&disk, path, CLAUDE.as_bytes(), 0o600).unwrap();
    disk
}

const CRASHED: [Agent; 3] = [Agent::ClaudeCode, Agent::Codex, Agent::OpenCode];

/// Is everything as before the install?
fn assert_untouched(disk: &FaultFs, context: &str) {
    let settings = disk.bytes_of(Path::new("/u/.claude/settings.json"));
    assert_eq!(settings.as_deref(), Some(CLAUDE.as_bytes()), "{context}");
    for gone in [
        "/u/.codex/hooks.json",
        "/u/.config/opencode/plugin/threadseal.js",
    ] {
        assert_eq!(disk.bytes_of(Path::new(gone)), None, "{context}");
    }
}

// T-CAP-12
#[test]
fn a_crash_at_any_call_of_an_install_or_an_uninstall_is_mended() {
    let user = Path::new("/u");
    let program = "/opt/threadseal";
    for crashed_install in [true, false] {
        for call in 0.. {
            let mut struck = false;
            for keep in [Keep::Nothing, Keep::Everything, Keep::ByLot(call as u64)] {
                let disk = disk();
                if !crashed_install {
                    install(&disk, user, &CRASHED, "/old/threadseal").unwrap();
                }
                disk.plan(call, FaultKind::PowerOff);
                let failed = match crashed_install {
                    true => install(&disk, user, &CRASHED, program).is_err(),
                    false => uninstall(&disk, user, None).iter().any(Result::is_err),
                };
                struck = disk.struck().is_some();
                let context = format!("call {call} {:?} {keep:?}", disk.struck());
                assert!(!struck || failed || !crashed_install, "{context}");
                disk.cut_power(keep);
                // Either way leads to a whole state.
                if call % 2 == 0 {
                    install(&disk, user, &CRASHED, program)
                        .unwrap_or_else(|e| panic!("{context}: {e}"));
                    let settings = disk
                        .bytes_of(Path::new("/u/.claude/settings.json"))
                        .unwrap();
                    let settings = String::from_utf8(settings).unwrap();
                    assert!(
                        settings.contains("'/opt/threadseal' hook claude-code"),
                        "{context}"
                    );
                }
                for done in uninstall(&disk, user, None) {
                    done.unwrap_or_else(|error| panic!("{context}: {error}"));
                }
                assert_untouched(&disk, &context);
            }
            if !struck {
                break;
            }
        }
    }
}

// T-CAP-13
#[test]
fn settings_of_another_user_are_refused() {
    use threadseal_store::sys::Fs as _;
    let disk = disk();
    let owner = disk.metadata(Path::new("/u")).unwrap().uid;
    assert!(refuse_foreign(Path::new("/u"), owner, &disk).is_ok());
    let refused = refuse_foreign(Path::new("/u"), owner + 1, &disk).unwrap_err();
    assert!(refused.to_string().contains("without sudo"), "{refused}");
}

#[test]
fn a_path_that_json_cannot_hold_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let machine = Machine::new("/u".into(), None, |_| None, System::Unix).unwrap();
    let wish = Wish {
        machine: &machine,
        program: Path::new(std::ffi::OsStr::from_bytes(b"/opt/\xff/threadseal")),
        home: None,
        strict: false,
    };
    let journal = Journal::default();
    let refused = plan_agent(Agent::ClaudeCode, &wish, &journal, &disk()).unwrap_err();
    assert!(refused.to_string().contains("UTF-8"), "{refused}");
}
