// Signals as requests to the training loop.
#pragma once

#include <atomic>
#include <cstdint>

#include "banyan/train/train.hpp"

namespace banyan {

enum class SignalEffect : std::uint8_t { none, snapshot, stop };

/// SIGINT and SIGHUP make the given requests; SIGTERM and SIGUSR1 (which mpirun passes on, and batch systems
/// send before a time limit) request a stop. Once a stop has been requested, the next SIGINT or SIGTERM ends
/// the process at once with 128 + its number. SIGPIPE is ignored: a closed terminal must not end training.
/// The calling thread and those that it starts later take no signals any more: a thread of their own does.
/// `flags` must live to the end of the process.
void install_signals(SignalEffect sigint, SignalEffect sighup, SignalFlags& flags);

/// SIGTERM has arrived since: mpirun sends it to all processes when one of them has died.
const std::atomic<bool>& told_to_end();

}  // namespace banyan
