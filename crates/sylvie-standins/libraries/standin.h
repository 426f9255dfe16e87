// What the stand-ins tell each other. libcuda's has all of it; the others call it.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
// Devices that there are; 4 unless told otherwise.
void standin_set_devices(int n_devices);
// Whether the driver refuses PTX: 1, as an old one does, that was not compiled here; 2, all of it.
void standin_refuse_ptx(int refuse);
// How long a call may wait for a peer that never comes.
void standin_set_patience_ms(int64_t ms);
int64_t standin_patience_ms(void);
// Pretends that work of one thread needs none of another's: the next event waits on no stream. For testing the tests.
void standin_forget_waits(int forget);

// NCCL posts no sends of so many bytes, as if the call were missing; 0 for none.
void standin_lose_sends(int bytes);
size_t standin_lost_bytes(void);

// Takes the oldest report of misuse, or gives 0 where there is none.
int standin_take_report(char *text, size_t text_bytes);
void standin_report(const char *text);

// An operation on a stream touches device memory: 0, or 1 after a report.
int standin_touch(void *stream, const void *memory, size_t bytes, int writes, const char *operation);
// Begins an operation of which others decide when it is over; the stream's later operations wait for it.
void *standin_begin(void *stream);
void standin_end(void *operation, int failed);
// The device of the current context, or -1.
int standin_current_device(void);
// Blocks until earlier operations on the stream are over.
int standin_drain(void *stream);
}
