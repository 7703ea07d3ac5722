// A few CPU devices with a tree over them, and a way to run a body on all of them at once.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/parallel/device_tree.hpp"
#include "banyan/parallel/statistics_exchange.hpp"
#include "banyan/parallel/worker_group.hpp"

namespace banyan::parallel {

struct TreeSetting {
  int devices = 1;
  bool asynchronous = false;  ///< streams on their own threads, with random delays
  unsigned delay_us = 0;      ///< of asynchronous streams
};

class TreeFixture {
 public:
  explicit TreeFixture(const TreeSetting& setting, WatchdogOptions watchdog = {})
      : TreeFixture(usual_devices(setting), nullptr, watchdog) {}
  /// Over the test's own devices; `access` as in Member.
  explicit TreeFixture(std::vector<std::unique_ptr<Device>> devices, LinkAccess* access = nullptr,
                       WatchdogOptions watchdog = {})
      : watchdog_(watchdog),
        links_(static_cast<int>(devices.size()), LinkClass::memory),
        devices_(std::move(devices)) {
    for (const auto& device : devices_) {
      activities_.push_back(std::make_unique<Activity>(device->name(), &abort.flag()));
      members.push_back({device.get(), activities_.back().get(), access});
    }
    meeting_ = std::make_unique<Rendezvous>(size(), abort, spin());
  }

  int size() const { return static_cast<int>(members.size()); }
  Device& device(int rank) { return *devices_[rank]; }
  Activity& activity(int rank) { return *activities_[rank]; }
  const LinkMatrix& links() const { return links_; }
  DeviceTree tree(const Tree& shape, int slots) { return DeviceTree(shape, members, abort, spin(), slots); }
  SpinPolicy spin() const { return spin_policy(size(), 1); }
  StatisticsTrees statistics_trees(const std::vector<int>& group_sizes = {}) {
    return StatisticsTrees(links_, best_tree(links_), members, group_sizes, abort, spin());
  }
  /// Runs body(rank) on one thread per device; rethrows the first error.
  void run(const std::function<void(int)>& body) {
    std::vector<Activity*> activities;
    for (const auto& activity : activities_) activities.push_back(activity.get());
    WorkerGroup(activities, abort, watchdog_).run([&](int rank) {
      device(rank).make_current();
      body(rank);
    });
  }

  /// The last line of a body whose buffers others may still read.
  void meet(int rank) { meeting_->meet(rank, activity(rank), {"test"}); }

  AbortState abort;
  std::vector<Member> members;

 private:
  static std::vector<std::unique_ptr<Device>> usual_devices(const TreeSetting& setting) {
    std::vector<std::unique_ptr<Device>> devices;
    for (int i = 0; i < setting.devices; ++i) {
      CpuDeviceOptions options;
      options.asynchronous = setting.asynchronous;
      options.max_delay_us = setting.delay_us;
      devices.push_back(make_cpu_device(i, options));
    }
    return devices;
  }

  std::unique_ptr<Rendezvous> meeting_;
  WatchdogOptions watchdog_;
  LinkMatrix links_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Activity>> activities_;
};

/// The settings with which every ordering test runs.
inline std::vector<TreeSetting> all_settings() {
  std::vector<TreeSetting> settings;
  for (const int devices : {1, 2, 3, 4, 5, 10})  // 9 parts are more than one operator adds
    for (const bool asynchronous : {false, true})
      settings.push_back({devices, asynchronous, asynchronous ? 200u : 0u});
  return settings;
}
inline std::string name_of_setting(const testing::TestParamInfo<TreeSetting>& info) {
  return std::to_string(info.param.devices) + (info.param.asynchronous ? "Async" : "Inline");
}

}  // namespace banyan::parallel
