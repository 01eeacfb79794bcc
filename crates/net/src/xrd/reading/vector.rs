//! Vector reads: many ranges of many files in frames.

use super::{SendOptions, Step, frame_header, past_end, refuse, send_path};
use crate::xrd::{OpenFile, ReadMethod, handles::Handle, limits::ANNOUNCED_ELEMENTS_MIN, sender::Sender};
use base::{ByteRange, Failure, Result, limits::XRD_READ_SEGMENT_BYTES};
use std::{io::IoSliceMut, iter::Peekable, sync::Arc, vec};
use wire::xrd::{ANSWER_HEADER_BYTES, StreamId, VECTOR_ELEMENT_BYTES, VectorElement};

/// An element of a vector and its file.
pub(in crate::xrd) type Element<F> = (Arc<Handle<F>>, VectorElement);

/// A frame of a vector read: as many elements as fit, an element is never cut. Past the end of a file is an error; the
/// handle stays good.
pub(super) fn vector_frame<F: OpenFile>(
    out: &mut Sender<F>,
    stream: StreamId,
    elements: &mut Peekable<vec::IntoIter<Element<F>>>,
    options: SendOptions,
) -> Step {
    let send_path_of =
        |(handle, element): &Element<F>| send_path(&*handle.file, element.length as usize, options);
    let (mut group, mut bytes) = (Vec::new(), 0);
    // Short frames: the client takes one while the next is put together.
    while let Some(element) = elements.next_if(|(_, element)| {
        bytes == 0 || bytes + VECTOR_ELEMENT_BYTES + element.length as usize <= XRD_READ_SEGMENT_BYTES
    }) {
        bytes += VECTOR_ELEMENT_BYTES + element.1.length as usize;
        group.push(element);
    }
    if let Some((handle, failure)) = check_elements(&group) {
        return refuse(out, stream, handle, &failure);
    }
    announce(&group);
    let is_last = elements.peek().is_none();
    let header = frame_header(stream, bytes, is_last);
    let send_paths: Option<Vec<_>> = group.iter().map(send_path_of).collect();
    if let Some(send_paths) = send_paths {
        out.extend(&header);
        for ((handle, element), send_path) in group.iter().zip(send_paths) {
            out.extend(&element.encode());
            send_path.add(out, handle, element.offset, element.length as usize);
        }
    } else {
        let room = out.grow(ANSWER_HEADER_BYTES + bytes);
        room[..ANSWER_HEADER_BYTES].copy_from_slice(&header);
        let room_for_data = &mut room[ANSWER_HEADER_BYTES..];
        if let Err((handle, failure)) = read_elements(&group, room_for_data, options.method) {
            out.cut(ANSWER_HEADER_BYTES + bytes);
            return refuse(out, stream, handle, &failure);
        }
    }
    if is_last { Step::Done } else { Step::More }
}

/// Reads elements to their places, many at once where they are of one file and the method does not forbid it.
fn read_elements<'a, F: OpenFile>(
    group: &'a [Element<F>],
    room: &mut [u8],
    method: ReadMethod,
) -> Result<(), (&'a Handle<F>, Failure)> {
    let (mut wanted, mut rest) = (Vec::with_capacity(group.len()), room);
    for (_, element) in group {
        let (header, after) = rest.split_at_mut(VECTOR_ELEMENT_BYTES);
        header.copy_from_slice(&element.encode());
        let (data, after) = after.split_at_mut(element.length as usize);
        wanted.push((element.offset, data));
        rest = after;
    }
    let mut wanted = wanted.as_mut_slice();
    for run in group.chunk_by(|(a, _), (b, _)| Arc::ptr_eq(a, b)) {
        let (of_run, after) = wanted.split_at_mut(run.len());
        let handle = &*run[0].0;
        let read = match method {
            ReadMethod::Pread => of_run.iter_mut().try_for_each(|(offset, data)| {
                handle.file.read_vectored_at(*offset, &mut [IoSliceMut::new(data)])
            }),
            _ => handle.file.read_many_at(of_run),
        };
        read.map_err(|failure| (handle, failure))?;
        wanted = after;
    }
    Ok(())
}

/// Tells a file what will be read, if all is of one file and enough to be worth it.
fn announce<F: OpenFile>(group: &[Element<F>]) {
    let Some((first, _)) = group.first().filter(|_| group.len() >= ANNOUNCED_ELEMENTS_MIN) else { return };
    if group.iter().all(|(handle, _)| Arc::ptr_eq(handle, first)) {
        let range = |(_, element): &Element<F>| ByteRange::at(element.offset, u64::from(element.length));
        first.file.will_read(&group.iter().filter_map(range).collect::<Vec<_>>());
    }
}

/// The first element that is past the end of its file.
fn check_elements<F: OpenFile>(group: &[Element<F>]) -> Option<(&Arc<Handle<F>>, Failure)> {
    let past = |(handle, element): &&Element<F>| {
        element.offset.saturating_add(u64::from(element.length)) > handle.file.size()
    };
    group.iter().find(past).map(|(handle, element)| (handle, past_end(handle, element)))
}
