#include "banyan/parallel/worker_group.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <boost/thread.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "banyan/base/error.hpp"
#include "banyan/observe/panel.hpp"
#include "base/clock.hpp"

namespace banyan::parallel {
namespace {

using Clock = std::chrono::steady_clock;

Error with_place(Error error, const Activity& activity) {
  const std::string device_and_iteration = cat(" on ", activity.device(), ", iteration ");
  if (std::string(error.what()).find(device_and_iteration) == std::string::npos)
    error.add_context(activity.describe());
  return error;
}

/// Calls body and turns whatever it throws into an Error that says where it happened.
std::optional<Error> failure_of(const std::function<void(int)>& body, int rank, const Activity& activity) {
  try {
    body(rank);
    return std::nullopt;
  } catch (const Error& error) {
    return with_place(error, activity);
  } catch (const std::bad_alloc&) {
    return with_place(Error(ErrorKind::runtime, "out of memory on " + activity.device()), activity);
  } catch (const std::exception& error) {
    return with_place(Error(ErrorKind::runtime, error.what()), activity);
  } catch (const boost::thread_interrupted&) {
    return with_place(Error(ErrorKind::runtime, "the thread was interrupted"), activity);
  }
}

/// The device of this process that all others have been waiting for in vain, at least since `from`, if there
/// is one. Where all wait, at least since `one_worked`, which is kept here, too: for a moment all do whenever
/// the last one has done its part and messages are still on their way, however long it has been waited for.
/// And as long as messages come and go, all wait for a slow network only.
std::optional<Error> find_silent(const std::vector<Activity*>& activities, const WatchdogOptions& watchdog,
                                 Clock::time_point from, Clock::time_point& one_worked) {
  const Activity* silent = nullptr;
  double longest = watchdog.silence_seconds;
  const OtherDevices others = watchdog.others ? watchdog.others() : OtherDevices{};
  bool any_waits = others.any_waits, all_wait = others.all_wait;
  const auto waits = [&](std::size_t i) {
    return activities[i]->state().waiting || (!others.held_up.empty() && others.held_up[i]);
  };
  for (std::size_t i = 0; i < activities.size(); ++i) {
    any_waits = any_waits || waits(i);
    all_wait = all_wait && waits(i);
  }
  if (all_wait)
    from = std::max({from, one_worked, others.moved});
  else
    one_worked = Clock::now();
  for (std::size_t i = 0; i < activities.size(); ++i) {
    const Activity* activity = activities[i];
    const ActivityState state = activity->state();
    if (watchdog.data_may_stall && state.stage == Stage::data) continue;
    const double age = seconds_since(std::max(activity->last_beat(), from));
    if ((all_wait || !waits(i)) && state.stage != Stage::idle && age > longest) {
      silent = activity;
      longest = age;
    }
  }
  if (silent == nullptr || !any_waits) return std::nullopt;
  Error error(ErrorKind::runtime,
              cat("watchdog: ", silent->device(), " has made no progress for ", std::floor(longest * 10) / 10,
                  " s while other devices wait", all_wait ? " (and it waits too)" : " for it"));
  error.add_context(silent->describe());
  return error;
}

}  // namespace

void WorkerGroup::run(const std::function<void(int)>& body, const std::function<void(int)>& wind_down) {
  if (activities_.size() == 1 && !watchdog_.others) {
    const auto error = failure_of(body, 0, *activities_[0]);
    if (error) abort_.raise(*error);
    if (wind_down) wind_down(0);
    if (error) throw Error(abort_.error().value_or(*error));
    return;
  }
  const auto work = [this, &body, &wind_down](std::size_t i) {
    ::pthread_setname_np(::pthread_self(), activities_[i]->device().substr(0, 15).c_str());
    if (const auto error = failure_of(body, static_cast<int>(i), *activities_[i])) abort_.raise(*error);
    if (wind_down) wind_down(static_cast<int>(i));
    activities_[i]->set_idle();
  };
  std::vector<std::unique_ptr<boost::thread>> threads;
  threads.reserve(activities_.size());
  for (std::size_t i = 0; i < activities_.size(); ++i) try {
      threads.push_back(std::make_unique<boost::thread>(work, i));
    } catch (const std::exception& error) {
      // Those that are already running use what the caller destroys: they must be joined.
      const auto* refused = dynamic_cast<const boost::thread_resource_error*>(&error);
      abort_.raise(Error(ErrorKind::runtime, cat("cannot start the thread of ", activities_[i]->device(),
                                                 ": ", refused ? refused->code().message() : error.what())));
      break;
    }

  // Only time during which the process ran counts. After a stop by a debugger or a shell, the current look is
  // a long one: the threads had no time to stop or to make progress.
  constexpr double kLook = 0.02, kLongestLook = 0.1, kStopped = 1;
  double stopping = 0;  // seconds since the abort
  Clock::time_point looked = Clock::now(), runs_since = looked, one_worked = looked;
  for (std::size_t joined = 0; joined < threads.size();) {
    if (threads[joined]->try_join_for(boost::chrono::duration<double>(kLook))) {
      ++joined;
      continue;
    }
    const double look = seconds_since(looked);
    looked = Clock::now();
    if (look > kStopped) runs_since = looked;
    if (!abort_.raised()) {
      if (watchdog_.silence_seconds <= 0) continue;
      if (const auto silent = find_silent(activities_, watchdog_, runs_since, one_worked))
        abort_.raise(*silent);
      continue;
    }
    stopping += std::min(look, kLongestLook);
    if (stopping < watchdog_.grace_seconds) continue;
    const auto error = abort_.error();
    const std::string text = cat(::program_invocation_short_name, ": ", error ? error->what() : "aborted",
                                 "\n  the thread of ", activities_[joined]->device(), " cannot be stopped (",
                                 activities_[joined]->describe(), "): ending the process\n");
    give_back_panel();
    if (!watchdog_.speaks || watchdog_.speaks()) {
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
    }
    if (watchdog_.before_end) watchdog_.before_end();
    ::_exit(exit_code(error ? error->kind() : ErrorKind::aborted));
  }
  if (const auto error = abort_.error()) throw Error(*error);
}

}  // namespace banyan::parallel
