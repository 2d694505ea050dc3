//! The few pages people see. Everything that did not come from us is escaped.

use grasp_core::Service;

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
