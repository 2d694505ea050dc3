//! The whole run, in the order in which one part leaves the store as the next one needs it.

use crate::cli::{Part, Settings};
use crate::events::World;
use crate::plan::Plan;
use crate::report::{Report, Row};
use crate::server::{binary, started_on};
use crate::spent::Spent;
use crate::stats::{millis, number, rate};
use crate::work::{fanout, idle, ingest, negentropy, query};
use crate::{filling, floors, process};
use anyhow::{Result, ensure};
use grasp_testkit::Server;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) async fn measure(settings: &Settings) -> Result<Report> {
    let plan = Plan::of(settings);
    let descriptors = process::raise_descriptors()?;
    let mut run = Run {
        binary: binary(settings)?,
        report: Report::new(process::machine(), plan.judged),
        descriptors,
        plan,
    };
    if settings.wants(Part::Ingest) || settings.wants(Part::Memory) {
        eprintln!("signing {} events", run.plan.events);
        let world = World::build(&run.plan, now());
        run.relay(settings, &world).await?;
    }
    if settings.wants(Part::Negentropy) {
        for count in run.plan.reconciled.clone() {
            run.negentropy(count).await?;
        }
    }
    Ok(run.report)
}

struct Run {
    binary: PathBuf,
    plan: Plan,
    report: Report,
    descriptors: usize,
}

impl Run {
    async fn relay(&mut self, settings: &Settings, world: &World) -> Result<()> {
        let fill = |directory: &Path| {
            filling::put_all(directory, &world.announcements)?;
            filling::put_all(directory, &world.comments)
        };
        let (mut server, ()) = started_on(&self.binary, &[], fill).await?;
        self.ingest(&server, world).await?;
        if settings.wants(Part::Ingest) {
            self.query(&server, world).await?;
            self.fan_out(&server, world).await?;
        }
        if settings.wants(Part::Memory) {
            self.memory(&mut server).await?;
        }
        Ok(())
    }

    async fn ingest(&mut self, server: &Server, world: &World) -> Result<()> {
        eprintln!("ingest over {} connections", self.plan.connections);
        let Plan { connections, in_flight_max, .. } = self.plan;
        let verified_before = floors::schnorr::per_second(self.plan.floor_time);
        let before = Spent::so_far(server.pid())?;
        let took =
            ingest::publish_all(&server.address, &world.issues, connections, in_flight_max).await?;
        let count = world.issues.len();
        let spent = Spent::so_far(server.pid())?.since(&before);
        // A disturbance while the floor was measured would flatter the ratio.
        let verified = verified_before.max(floors::schnorr::per_second(self.plan.floor_time));
        self.report.add(Row::new("schnorr verifications, all cores", verified, "/s"));
        let ingested = Row::new("ingest, durable", rate(count, took), "/s")
            .beside("schnorr", verified)
            .at_least_share(0.25);
        self.report.add(ingested);
        spent.into_notes(count, &mut self.report);
        let stored = query::count(&server.address).await?;
        let expected = count + world.comments.len() + world.announcements.len();
        ensure!(stored == expected, "the server has {stored} events, {expected} were given to it");

        let lone = world.more_issues(self.plan.lone_publishes, 1);
        let waited = ingest::publish_alone(&server.address, &lone).await?;
        let floor = floors::commit::latencies(&world.issues, &lone)?;
        let floor_name = "durable commit p50";
        self.report.add(
            Row::new("one publish, p50", waited.p50_ms(), "ms").beside(floor_name, floor.p50_ms()),
        );
        self.report.add(
            Row::new("one publish, p99", waited.p99_ms(), "ms")
                .beside("durable commit p99", floor.p99_ms()),
        );
        Ok(())
    }

    async fn query(&mut self, server: &Server, world: &World) -> Result<()> {
        let Plan { connections, queries_per_connection, .. } = self.plan;
        eprintln!("queries over {connections} connections");
        let answers =
            query::ask_all(&server.address, world, connections, queries_per_connection).await?;
        let exchanges = answers.exchanges.into_iter().take(queries_per_connection).collect();
        let echo = floors::echo::latencies(connections, exchanges).await?;
        for (shape, latencies) in &answers.by_shape {
            let name = format!("query {}, p99", shape.name());
            self.report.add(Row::new(name, latencies.p99_ms(), "ms"));
        }
        self.report.add(
            Row::new("query mix, p50", answers.all.p50_ms(), "ms")
                .beside("echo p50", echo.p50_ms()),
        );
        self.report.add(
            Row::new("query mix, p99", answers.all.p99_ms(), "ms")
                .beside("echo p99", echo.p99_ms())
                .below(f64::max(3.0, 10.0 * echo.p99_ms())),
        );
        Ok(())
    }

    async fn fan_out(&mut self, server: &Server, world: &World) -> Result<()> {
        let Plan { subscribers, fan_outs, .. } = self.plan;
        eprintln!("fan-out to {subscribers} subscribers");
        let events = world.more_issues(fan_outs, 2);
        let messages: Vec<_> = events.iter().map(ingest::message_of).collect::<Result<_>>()?;
        let spread = fanout::spread(&server.address, subscribers, &messages).await?;
        let floor = floors::echo::spread(subscribers, messages).await?;
        let name = |what: &str| format!("fan-out to {subscribers}, {what}");
        let (p50, p99) = (spread.from_publish.p50_ms(), spread.from_publish.p99_ms());
        self.report
            .add(Row::new(name("p50"), p50, "ms").beside("bare broadcast p50", floor.p50_ms()));
        self.report.add(
            Row::new(name("p99"), p99, "ms")
                .beside("bare broadcast p99", floor.p99_ms())
                .below(50.0),
        );
        self.report.add(Row::new(name("p99 after OK"), spread.from_ok.p99_ms(), "ms"));
        Ok(())
    }

    async fn memory(&mut self, server: &mut Server) -> Result<()> {
        eprintln!("memory");
        let events = self.plan.events;
        let used = process::anonymous_mb(server.pid())?;
        self.report.add(
            Row::new(format!("memory, {events} events, after the load"), used, "MB").below(60.0),
        );
        ensure!(server.stop().await, "the server does not stop in order");
        server.restart().await;
        // Once it has looked at every event, it is as awake as an idle server gets.
        ensure!(query::count(&server.address).await? >= events, "events were lost in a restart");
        let used = process::anonymous_mb(server.pid())?;
        self.report.add(
            Row::new(format!("memory, {events} events, after a start"), used, "MB").below(60.0),
        );
        let connections = self.affordable_connections();
        let _idle = idle::start(&server.address, connections).await?;
        let used = process::anonymous_mb(server.pid())?;
        self.report.add(
            Row::new(format!("memory, {connections} idle connections"), used, "MB").below(300.0),
        );
        Ok(())
    }

    /// A tenth of the descriptors is the server's reserve.
    fn affordable_connections(&mut self) -> usize {
        let wanted = self.plan.idle_connections;
        let affordable = (self.descriptors / 10 * 9).saturating_sub(100).min(wanted);
        if affordable < wanted {
            let limit = self.descriptors;
            self.report.note(format!(
                "only {affordable} of {wanted} idle connections: this machine allows {limit} open files"
            ));
        }
        affordable
    }

    async fn negentropy(&mut self, count: usize) -> Result<()> {
        eprintln!("negentropy over {count} events");
        let fill = |directory: &Path| {
            let positions = filling::unsigned(directory, count)?;
            Ok((positions, floors::scan::per_second(directory)?))
        };
        let (server, (theirs, scanned)) = started_on(&self.binary, &[], fill).await?;
        let is_last = self.plan.reconciled.last() == Some(&count);
        let missing = self.plan.missing;
        let every = count / missing;
        let ours = theirs.iter().enumerate().filter(|(n, _)| n % every != every / 2);
        let seen = negentropy::reconcile(&server.address, ours.map(|(_, it)| *it)).await?;
        ensure!(seen.needed == missing, "{} of {missing} missing events found", seen.needed);
        let floor_ms = number(count) / scanned * 1_000.0;
        let name = |what: &str| format!("negentropy {count} less {missing}, {what}");
        let mut took = Row::new(name("time"), millis(seen.took), "ms").beside("scan", floor_ms);
        let mut bytes = Row::new(name("both ways"), number(seen.bytes) / 1e6, "MB");
        if is_last {
            took = took.below(2_000.0);
            bytes = bytes.below(3.0);
        }
        self.report.add(Row::new(format!("LMDB range scan, {count} events"), scanned, "/s"));
        self.report.add(took);
        self.report.add(bytes);
        self.report.add(Row::new(name("rounds"), number(seen.rounds), ""));
        Ok(())
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
