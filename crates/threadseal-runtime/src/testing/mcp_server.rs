//! An MCP server over HTTP on this machine, a process that ends with its test.

use super::scene::Scene;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// Its program.
pub(crate) const SERVER: &str = include_str!("../toolbox/mcp/tests/server.py");

/// A web server that ends with the test.
pub(crate) struct Web(Child, u16);

impl Web {
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.1)
    }

    /// The declaration of its tool with these members more.
    pub(crate) fn declaration(&self, more: &str) -> String {
        format!("tool_type: mcp\ntool: echo\nurl: {}\n{more}", self.url())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with this mode, and one argument more.
pub(crate) fn web(scene: &Scene, mode: &str, more: &str) -> Web {
    scene.file("server.py", SERVER);
    let mut child = Command::new("python3")
        .arg(scene.path("server.py"))
        .args(["http", mode, more])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    Web(child, line.trim().parse().unwrap())
}
