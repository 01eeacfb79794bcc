//! The async face, on an executor of forty lines.

use super::server::{Fault, Host, options, path, sample};
use crate::xrd::{CreateOptions, Options, aio};
use base::{ByteRange, Result};
use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake},
    thread::{self, Thread},
};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs futures at the same time in one thread.
fn join<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<Pin<Box<_>>> = futures.into_iter().map(Box::pin).collect();
    let mut values: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    block_on(std::future::poll_fn(|context| {
        for (future, value) in futures.iter_mut().zip(&mut values) {
            if value.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *value = Some(ready);
            }
        }
        if values.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    }));
    values.into_iter().flatten().collect()
}

fn is_send<T: Send>(future: T) -> T {
    future
}

#[test]
fn many_reads_wait_in_one_thread() {
    let bytes = sample(500_000);
    let host = Host::new(bytes.clone(), |number| if number % 30 == 29 { Fault::Cut(9) } else { Fault::None });
    let options = Options { chunk_bytes: 10_000, window_bytes: 50_000, ..options() };
    let file = block_on(is_send(aio::File::open_read(&host.url, &options))).unwrap();
    let read = |number: usize| {
        let (file, bytes) = (&file, &bytes);
        is_send(async move {
            let offset = number * 4999;
            let mut buffer = vec![0; 3000 + number * 500];
            let count = file.read_at(offset as u64, &mut buffer).await.unwrap();
            assert!(buffer[..count] == bytes[offset..bytes.len().min(offset + buffer.len())]);
        })
    };
    join((0..64).map(read).collect());
    let mut copy = Vec::new();
    let copied: Result<()> = block_on(is_send(file.copy_to(|piece: &[u8]| {
        copy.extend_from_slice(piece);
        Ok(())
    })));
    copied.unwrap();
    assert!(copy == bytes);
    let ranges = [ByteRange { offset: 5, end: 9 }, ByteRange { offset: 1, end: 6 }];
    block_on(file.preseek(&ranges)).unwrap();
    assert_eq!(block_on(file.read_vector(&ranges)).unwrap(), [&bytes[5..9], &bytes[1..6]]);
    block_on(file.close()).unwrap();
}

#[test]
fn a_future_that_is_dropped_disturbs_nobody() {
    let bytes = sample(100_000);
    let host = Host::new(bytes.clone(), |_| Fault::None);
    let file = block_on(aio::File::open_read(&host.url, &options())).unwrap();
    for round in 0..50 {
        let mut buffer = vec![0; 9000];
        {
            let mut read = pin!(file.read_at(round * 100, &mut buffer));
            let waker = Arc::new(Unpark(thread::current())).into();
            // Whether or not it is there already: it is dropped here.
            let _ = read.as_mut().poll(&mut Context::from_waker(&waker));
        }
        let mut buffer = vec![0; 100];
        assert_eq!(block_on(file.read_at(round, &mut buffer)).unwrap(), 100);
        assert!(buffer == bytes[round as usize..round as usize + 100]);
    }
}

#[test]
fn what_a_task_writes_is_there() {
    let host = Host::new(Vec::new(), |_| Fault::None);
    let options = Options { chunk_bytes: 10_000, window_bytes: 20_000, ..options() };
    let bytes = sample(123_456);
    block_on(is_send(async {
        let file = aio::File::create(&host.url, &options, CreateOptions::default()).await.unwrap();
        let mut writer = file.writer();
        writer.push(&bytes).await.unwrap();
        assert_eq!(writer.finish().await.unwrap(), bytes.len() as u64);
        file.close().await.unwrap();
        let names = aio::FileSystem::new(&host.url, &options);
        assert_eq!(names.stat(&path("/f")).await.unwrap().size, bytes.len() as u64);
    }));
    assert!(host.file.lock().unwrap().bytes == bytes);
}
