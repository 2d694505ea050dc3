//! A few threads that read the store, so that a cold page never stalls the network. A connection
//! has at most one question here at a time, and a link few, which is what bounds the queue.

use crate::threads::essential;
use crossbeam_channel::{Sender, unbounded};
use grasp_store::EventStore;
use std::sync::Arc;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce(&dyn EventStore) + Send>;

#[derive(Debug, Clone)]
pub struct Readers {
    jobs: Sender<Job>,
}

impl Readers {
    pub fn start(store: &Arc<dyn EventStore>, name: &str, threads: usize) -> std::io::Result<Self> {
        let (jobs, inbox) = unbounded::<Job>();
        for number in 0..threads.max(1) {
            let (inbox, store) = (inbox.clone(), Arc::clone(store));
            let read = move || inbox.iter().for_each(|job| job(&*store));
            essential(&format!("{name}-{number}"), read)?;
        }
        Ok(Self { jobs })
    }

    /// Runs `question` on a reader thread; the answer arrives on the returned channel.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn EventStore) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (answer, receiver) = oneshot::channel();
        let job = move |store: &dyn EventStore| {
            // Nobody listens any more when the client has left; that is fine.
            let _ = answer.send(question(store));
        };
        // Fails only while the process ends; the receiver then sees a closed channel.
        let _ = self.jobs.send(Box::new(job));
        receiver
    }
}
