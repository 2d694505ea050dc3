//! The few pages people see. Everything that did not come from us is escaped.

use grasp_core::{RepoId, Service};

pub struct Landing<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub service: &'a Service,
    pub npub: &'a str,
    pub events: u64,
    pub repositories: u64,
}

impl std::fmt::Debug for Landing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Landing").field("name", &self.name).finish_non_exhaustive()
    }
}

pub fn landing(page: &Landing<'_>) -> String {
    let Landing { name, description, service, npub, events, repositories } = page;
    let address = escape(&service.address());
    let tls = if service.is_bare_address() { "" } else { "s" };
    let body = format!(
        "<h1>{}</h1><p>{}</p>\
         <p>This is a <a href=\"https://ngit.dev/grasp\">GRASP</a> server: a Nostr relay and a git \
         host on one address. Repositories here belong to the people who sign them.</p>\
         <dl><dt>Relay</dt><dd><code>ws{tls}://{address}</code></dd>\
         <dt>Clone URL</dt><dd><code>http{tls}://{address}/&lt;npub&gt;/&lt;identifier&gt;.git</code></dd>\
         <dt>Relay key</dt><dd><code>{}</code></dd>\
         <dt>Repositories</dt><dd>{repositories}</dd><dt>Events</dt><dd>{events}</dd></dl>",
        escape(name),
        escape(description),
        escape(npub),
    );
    page_of(name, &body)
}

/// A repository, for people who follow its clone URL with a browser.
#[derive(Debug)]
pub struct Repository<'a> {
    pub service: &'a Service,
    pub repo: &'a RepoId,
    pub name: Option<&'a str>,
    pub description: Option<&'a str>,
    /// Announced, and nothing has been pushed yet.
    pub is_empty: bool,
}

pub fn repository(page: &Repository<'_>) -> String {
    let Repository { service, repo, name, description, is_empty } = page;
    let name = name.unwrap_or(repo.identifier.as_str());
    let (npub, identifier) = (repo.owner.to_npub(), repo.identifier.percent_encoded());
    let tls = if service.is_bare_address() { "" } else { "s" };
    let place = format!("{npub}/{identifier}");
    let hint = if service.is_bare_address() { "ws://" } else { "" };
    let hint = percent_encoded(&format!("{hint}{}", service.address()));
    let state = if *is_empty { "<p>Nothing has been pushed to it yet.</p>" } else { "" };
    let body = format!(
        "<h1>{}</h1><p>{}</p>{state}\
         <dl><dt>Clone</dt><dd><code>git clone http{tls}://{address}/{place}.git</code></dd>\
         <dt>Clone with ngit</dt><dd><code>git clone nostr://{npub}/{hint}/{identifier}</code></dd>\
         <dt>Owner</dt><dd><code>{npub}</code></dd>\
         <dt>Identifier</dt><dd><code>{}</code></dd></dl>\
         <p>Browse code, issues and pull requests with \
         <a href=\"https://gitworkshop.dev/{npub}/{hint}/{identifier}\">gitworkshop.dev</a> or \
         <a href=\"https://viewsource.win/{place}\">viewsource.win</a>.</p>",
        escape(name),
        escape(description.unwrap_or_default()),
        escape(repo.identifier.as_str()),
        address = escape(&service.address()),
    );
    page_of(name, &body)
}

/// Everything but RFC 3986 unreserved bytes escaped.
fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

pub fn no_repository() -> String {
    page_of(
        "No such repository",
        "<h1>No such repository</h1><p>This server does not host a repository under that address. \
         A repository is hosted once its owner publishes an announcement (kind 30617) here that \
         names this server in its clone and relays tags.</p>",
    )
}

pub fn not_found() -> String {
    page_of("Not found", "<h1>Not found</h1><p>There is nothing here under that address.</p>")
}

fn page_of(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{}</title><style>:root{{color-scheme:light dark}}\
         body{{font:1rem/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}}\
         dt{{font-weight:600}}dd{{margin:0 0 .75rem}}code{{overflow-wrap:anywhere}}</style></head>\
         <body>{body}</body></html>",
        escape(title),
    )
}

pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::service::Authority;

    fn page(identifier: &str, name: Option<&str>, host: &str) -> String {
        let service = Service::new(Authority::parse(host).unwrap(), vec![], "/grasp");
        let owner = grasp_core::PubKey::from_bytes([7; 32]);
        let repo = RepoId { owner, identifier: identifier.parse().unwrap() };
        let (service, repo) = (&service, &repo);
        repository(&Repository { service, repo, name, description: name, is_empty: true })
    }

    #[test]
    fn a_repository_page_tells_how_to_clone_and_where_to_look() {
        let page = page("acme tools", None, "git.example:8443");
        let npub = grasp_core::PubKey::from_bytes([7; 32]).to_npub();
        for part in [
            format!("git clone https://git.example:8443/grasp/{npub}/acme%20tools.git"),
            format!("git clone nostr://{npub}/git.example%3A8443%2Fgrasp/acme%20tools"),
            format!("https://gitworkshop.dev/{npub}/git.example%3A8443%2Fgrasp/acme%20tools"),
            format!("https://viewsource.win/{npub}/acme%20tools"),
            "<h1>acme tools</h1>".to_owned(),
            "Nothing has been pushed".to_owned(),
        ] {
            assert!(page.contains(&part), "{part} is missing in\n{page}");
        }
        let local = super::tests::page("acme", Some("Acme"), "127.0.0.1:7334");
        assert!(local.contains("git clone http://127.0.0.1:7334/grasp/"), "{local}");
        assert!(local.contains("ws%3A%2F%2F127.0.0.1%3A7334%2Fgrasp"), "{local}");
        assert!(local.contains("<h1>Acme</h1>"), "{local}");
    }

    #[test]
    fn names_from_strangers_are_text_not_markup() {
        let hostile = "\"'><img src=x onerror=alert(1)><b>&amp;";
        let page = page(hostile, Some(hostile), "git.example");
        for markup in ["<img", "<b>", "\"'>"] {
            assert!(!page.contains(markup), "{page}");
        }
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    }

    #[test]
    fn names_from_the_operator_are_text_not_markup() {
        let service = Service::new(Authority::parse("git.example").unwrap(), vec![], "");
        let name = "<script>alert('x')</script>";
        let page = landing(&Landing {
            name,
            description: name,
            service: &service,
            npub: "npub1",
            events: 1,
            repositories: 2,
        });
        assert!(!page.contains("<script"));
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"));
    }
}
