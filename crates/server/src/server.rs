//! Binding, serving, and stopping without cutting anyone off.

use crate::app::{App, Shared, Status, router};
use crate::config::Config;
use crate::loaded::Loaded;
use crate::worker::{Inbox, Worker};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use zinc_engine::Engine;

/// What can end a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {reason}\nhint: another program may use the port; `--port` takes another one"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's words.
        reason: std::io::Error,
    },
    /// The system refuses a thread or a socket.
    #[error("the server cannot run: {0}")]
    System(#[from] std::io::Error),
    /// The model cannot be loaded, or the device was lost.
    #[error(transparent)]
    Engine(#[from] zinc_engine::Error),
    /// The engine's thread panicked.
    #[error(
        "the engine's thread ended unexpectedly\nhint: this is a fault of zinc; the lines above say where"
    )]
    Panic,
}

/// A server that listens and does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Shared,
    worker: Worker,
    inbox: Inbox,
    stop: Stopper,
}

/// Stops a server from elsewhere.
#[derive(Clone)]
pub struct Stopper(watch::Sender<Stop>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Run,
    /// Finish what was begun.
    Drain,
    /// End at once.
    Now,
}

impl Stopper {
    /// Finishes what was begun and ends; at once, when called again.
    pub fn stop(&self) {
        self.0.send_modify(|stop| *stop = if *stop == Stop::Run { Stop::Drain } else { Stop::Now });
    }
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// [`Error::Bind`]
    pub fn bind(config: Config) -> Result<Server, Error> {
        let bound = TcpListener::bind(config.address);
        let listener = bound.map_err(|reason| Error::Bind { address: config.address, reason })?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (worker, inbox) = Worker::new(config.queue);
        let stop = Stopper(watch::channel(Stop::Run).0);
        Ok(Server { listener, address, app: Arc::new(App::new(config)), worker, inbox, stop })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Something to stop it with.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Loads the model and answers until stopped: by a [`Stopper`], or by SIGINT or SIGTERM.
    ///
    /// # Errors
    /// The model cannot be loaded; the device was lost.
    pub fn run<F>(self, load: F) -> Result<(), Error>
    where
        F: FnOnce() -> Result<Engine, zinc_engine::Error> + Send + 'static,
    {
        let Server { listener, app, worker, inbox, stop, .. } = self;
        let (shared, own_worker, own_stop) = (app.clone(), worker.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("engine".into());
        let engine = thread.spawn(move || {
            let result = engine_thread(&shared, own_worker, inbox, load);
            if let Err(e) = &result {
                tracing::error!(error = %e, "the engine stopped");
                shared.set_status(Status::Lost(e.to_string()));
            }
            own_stop.stop();
            result
        })?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(serve(listener, app.clone(), worker.clone(), stop))?;
        runtime.shutdown_timeout(Duration::from_millis(100));
        // A load cannot be interrupted; the end of the process ends it.
        if matches!(app.status(), Status::Loading) && !engine.is_finished() {
            return Ok(());
        }
        worker.stop();
        Ok(engine.join().map_err(|_| Error::Panic)??)
    }
}

/// Loads and works.
fn engine_thread<F>(app: &Shared, worker: Worker, inbox: Inbox, load: F) -> Result<(), zinc_engine::Error>
where
    F: FnOnce() -> Result<Engine, zinc_engine::Error>,
{
    let engine = load()?;
    let loaded = Arc::new(Loaded::new(&engine, app.config.model_name.clone(), worker)?);
    app.metrics.describe(&engine);
    let tokenizer = loaded.tokenizer.clone();
    let s = &loaded.summary;
    tracing::info!(model = %loaded.name, backend = s.backend, device = %s.device, context = s.context, "ready");
    app.set_status(Status::Ready(loaded));
    inbox.work(engine, &tokenizer, app.metrics.clone())
}

/// Answers until stopped, then until what was begun is done or the deadline comes.
async fn serve(listener: TcpListener, app: Shared, worker: Worker, stop: Stopper) -> Result<(), Error> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tokio::spawn(signals(stop.clone())?);
    let service = router(app.clone()).into_make_service_with_connect_info::<SocketAddr>();
    let mut begun = stop.0.subscribe();
    let begin = async move {
        // The sender lives in this function.
        let _ = begun.wait_for(|s| *s >= Stop::Drain).await;
    };
    let serving = axum::serve(listener, service).with_graceful_shutdown(begin);
    let mut watch = stop.0.subscribe();
    let deadline = async {
        let _ = watch.wait_for(|s| *s >= Stop::Drain).await;
        app.drain();
        tracing::info!(seconds = app.config.drain.as_secs(), "shutting down");
        let now = watch.wait_for(|s| *s >= Stop::Now);
        let _ = tokio::time::timeout(app.config.drain, now).await;
        worker.stop();
        // Time for clients to be told.
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    tokio::select! {
        done = serving.into_future() => Ok(done?),
        () = deadline => Ok(()),
    }
}

/// Turns SIGINT and SIGTERM into stops.
fn signals(stop: Stopper) -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            stop.stop();
        }
    })
}
