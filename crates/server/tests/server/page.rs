//! The chat page: its files, what browsers are told of them, and its scripts.

use crate::common::{TestServer, fixture, serve};
use std::path::Path;
use std::process::Command;

/// The texts after `before`, up to a quote.
fn quoted<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split(['"', '\'']).next()).collect()
}

/// Gets a file and checks what a browser is told.
fn file(server: &TestServer, path: &str) -> String {
    let reply = server.get(path);
    assert_eq!(reply.status, 200, "{path}");
    let kind = match path.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/html; charset=utf-8",
    };
    assert_eq!(reply.header("content-type"), Some(kind), "{path}");
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
    assert_eq!(reply.header("cache-control"), Some("no-cache"), "{path}");
    let policy = reply.header("content-security-policy").expect("a policy");
    for part in ["default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"] {
        assert!(policy.contains(part), "{path}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{path}: {policy}");
    let tag = reply.header("etag").expect("a tag");
    let again = server.request("GET", path, &[("if-none-match", tag)], b"");
    assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    reply.text()
}

#[test]
fn all_files_of_the_page_are_there_and_nothing_else_is_needed() {
    // Without a key: the page must be there to ask for it.
    let server = serve(&fixture("qwen3"), |config, _| config.api_keys = vec!["secret".into()]);
    let page = file(&server, "/");
    let mut names: Vec<String> = ["href=\"page/", "src=\"page/"]
        .iter()
        .flat_map(|before| quoted(&page, before))
        .map(str::to_owned)
        .collect();
    assert!(names.len() >= 5, "{names:?}");
    let mut texts = vec![("index.html".to_owned(), page)];
    while let Some(name) = names.pop() {
        if texts.iter().all(|(known, _)| *known != name) {
            let text = file(&server, &format!("/page/{name}"));
            names.extend(quoted(&text, "from './").into_iter().map(str::to_owned));
            texts.push((name, text));
        }
    }
    for (name, text) in &texts {
        // The name of the vector format is no address that is asked for.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http://", "https://"] {
            assert!(!text.contains(outside), "`{name}` names an address elsewhere");
        }
        for sink in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "<style",
            " style=\"",
            " onclick=\"",
        ] {
            assert!(!text.contains(sink), "`{name}` has `{sink}`");
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page");
    for entry in folder.read_dir().expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        let served = texts.iter().any(|(known, _)| *known == name);
        assert!(served || ["mod.rs", "package.json"].contains(&name.as_str()), "`{name}` is used nowhere");
    }
    assert_eq!(server.get("/page/mod.rs").status, 404);
    assert_eq!(server.get("/page/..%2f..%2fCargo.toml").status, 404);
    assert_eq!(server.get("/v1/models").status, 401);
}

/// Markdown, highlighting and event streams, where Node is installed.
#[test]
fn the_scripts_pass_their_own_tests() {
    if !Command::new("node").arg("--version").output().is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: there is no `node`");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page");
    let mut tests: Vec<_> =
        folder.read_dir().expect("a folder").map(|e| e.expect("an entry").path()).collect();
    tests.sort();
    let run = Command::new("node").arg("--test").args(&tests).output().expect("node");
    assert!(
        run.status.success(),
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}
