// The time at which a stream reaches a point in its work.
#pragma once

#include <atomic>
#include <cstdint>

#include "banyan/device/device.hpp"

namespace banyan {

/// Enqueues on `stream` a write of the time to `nanoseconds` (of the steady clock). It is written by the time
/// the stream has been synchronized; the target must stay valid until then. CPU streams write it when they
/// reach that point. A GPU records an event, which costs about a microsecond of the host and of the stream
/// and does not make the host wait; a GPU's times agree with the host's clock to about 10 us. Does not throw.
void stamp(Stream& stream, std::atomic<std::int64_t>& nanoseconds) noexcept;

}  // namespace banyan
