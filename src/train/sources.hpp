// Sources: the layers of a device's nets that bring data, as the run sees them.
#pragma once

#include <string>
#include <vector>

#include "banyan/data/batch_source.hpp"
#include "banyan/net/net.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

class Sources {
 public:
  /// Those of a net, under the name that snapshots know it by.
  void add(const Net& net, const std::string& name);
  /// Called as long as records come in for a device that waits for them.
  void set_beat(const std::function<void()>& beat);
  void trace_to(const Tracing& tracing);
  /// On any thread, when nothing is added any more: waits for data end.
  void interrupt();
  /// At the end of a run: reading ends.
  void stop();
  void save(caffe::BanyanState& state) const;
  /// Goes on where the sources of the same names stood.
  void restore(const caffe::BanyanState& state);

 private:
  struct Entry {
    std::string net, layer;
    data::BatchSource* source;
  };
  std::vector<Entry> entries_;
};

}  // namespace banyan
