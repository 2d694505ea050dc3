//! What is pushed and cloned: histories that nothing compresses, as `git fast-import` reads them.
//! The same plan always makes the same objects.

use grasp_testkit::{Git, Random, WorkTree};
use std::io::Write;

/// Commits on `main`, each with some new contents of some files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Story {
    pub(crate) commits: usize,
    pub(crate) files_per_commit: usize,
    pub(crate) file_bytes: usize,
    /// Different names in all; old contents stay in the history.
    pub(crate) files: usize,
}

/// One stream for fast-import holds about this much.
const HELPING_BYTES: usize = 128 << 20;
const AUTHOR: &str = "committer A <a@example.com> 1700000000 +0000\ndata 1\n.\n";

impl Story {
    pub(crate) fn bytes(&self) -> usize {
        self.commits * self.commit_bytes()
    }

    pub(crate) fn commit_bytes(&self) -> usize {
        self.files_per_commit * self.file_bytes
    }

    pub(crate) async fn told(&self, git: &Git) -> WorkTree {
        let tree = WorkTree::init(git).await;
        // Looking for similar parts in what has none would only take the client's time.
        tree.git(&["config", "core.bigFileThreshold", "8m"]).await;
        let (mut stream, mut random) = (Vec::new(), Random::seeded(1));
        for number in 0..self.commits {
            let from =
                if number > 0 && stream.is_empty() { "from refs/heads/main^0\n" } else { "" };
            write(&mut stream, &format!("commit refs/heads/main\n{AUTHOR}{from}"));
            for _ in 0..self.files_per_commit {
                let file = random.index(self.files);
                write(&mut stream, &format!("M 100644 inline d{}/f{file}\n", file % 20));
                noise(&mut stream, self.file_bytes, &mut random);
            }
            if stream.len() >= HELPING_BYTES || number + 1 == self.commits {
                import(&tree, &stream).await;
                stream.clear();
            }
        }
        tree
    }
}

/// `main`, and branches beside it with a commit of their own each.
pub(crate) async fn branches(git: &Git, count: usize) -> WorkTree {
    let (mut stream, mut random) = (Vec::new(), Random::seeded(2));
    let tree = WorkTree::init(git).await;
    write(&mut stream, &format!("commit refs/heads/main\n{AUTHOR}M 100644 inline README\n"));
    noise(&mut stream, 2_000, &mut random);
    for number in 1..count {
        write(&mut stream, &format!("commit refs/heads/topic-{number}\n{AUTHOR}"));
        write(&mut stream, &format!("from refs/heads/main\nM 100644 inline note-{number}\n"));
        noise(&mut stream, 200, &mut random);
    }
    import(&tree, &stream).await;
    tree
}

/// Histories that share nothing. The refs of one are those under its name: `project-7/main` as the
/// story tells it, `project-7/topic` one commit further, the tag `project-7/v1` half way.
pub(crate) async fn many(git: &Git, story: &Story, count: usize) -> WorkTree {
    let (mut stream, mut random) = (Vec::new(), Random::seeded(3));
    let tree = WorkTree::init(git).await;
    for number in 0..count {
        let own = |kind: &str, name: &str| format!("refs/{kind}/project-{number}/{name}");
        let main = own("heads", "main");
        for commit in 0..story.commits {
            write(&mut stream, &format!("commit {main}\n{AUTHOR}"));
            for _ in 0..story.files_per_commit {
                let file = random.index(story.files);
                write(&mut stream, &format!("M 100644 inline f{file}\n"));
                noise(&mut stream, story.file_bytes, &mut random);
            }
            if commit == story.commits / 2 {
                write(&mut stream, &format!("reset {}\nfrom {main}\n\n", own("tags", "v1")));
            }
        }
        let topic = format!("commit {}\n{AUTHOR}from {main}\n", own("heads", "topic"));
        write(&mut stream, &format!("{topic}M 100644 inline topic\n"));
        noise(&mut stream, story.file_bytes, &mut random);
        if stream.len() >= HELPING_BYTES || number + 1 == count {
            import(&tree, &stream).await;
            stream.clear();
        }
    }
    tree
}

async fn import(tree: &WorkTree, stream: &[u8]) {
    tree.git_reading(&["fast-import", "--quiet"], stream).await;
}

fn noise(stream: &mut Vec<u8>, len: usize, random: &mut Random) {
    write(stream, &format!("data {len}\n"));
    let end = stream.len() + len;
    while stream.len() < end {
        stream.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    stream.truncate(end);
    stream.push(b'\n');
}

fn write(stream: &mut Vec<u8>, text: &str) {
    stream.write_all(text.as_bytes()).unwrap_or_else(|_| unreachable!("a vector grows"));
}
