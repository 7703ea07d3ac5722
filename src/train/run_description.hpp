// What a run's metrics begin with: program, machine, solver, nets, devices, memory; and what its early
// warnings go by.
#pragma once

#include "banyan/metrics/record.hpp"
#include "banyan/net/net.hpp"
#include "run.hpp"
#include "sources.hpp"

namespace banyan {

/// When everything is set up; on the first device. `net` is its train net, `sources` those of all its nets.
metrics::Start describe_run(const Run& run, const Net& net, const Sources& sources);
/// The same for early warnings; `devices`: of all processes.
WarningFacts warning_facts(const Run& run, const Net& net, const Sources& sources, int devices);

}  // namespace banyan
