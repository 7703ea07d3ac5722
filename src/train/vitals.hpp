// Vitals: what one device measures of its net for early warnings: norms of what it updates, and which
// channels of rectifiers are alive; and the search for values that are not finite.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/net/net.hpp"
#include "banyan/train/updater.hpp"
#include "peers.hpp"

namespace banyan {

/// The layers of a net that give 0 for all negative values.
std::vector<int> rectifiers_of(const Net& net);

class Vitals {
 public:
  /// `owned`: what this device updates.
  Vitals(Net& net, std::vector<Updater::OwnedPiece> owned);

  /// From here on forward passes note which channels are alive, the last one counts; up to end(). Nobody
  /// waits.
  void begin();
  void end();
  /// After the updates, which ran on `lane`. Waits for the device.
  VitalSigns read(Context& lane);

 private:
  void note(int layer);

  Net& net_;
  std::vector<Updater::OwnedPiece> owned_;
  std::vector<int> rectifiers_;  ///< layers
  std::vector<int> number_of_;   ///< for each layer its place among them; -1: it is none
  std::vector<bool> dropped_;    ///< of each: is its output held with the dropout after it only?
  std::vector<Tensor> moments_;  ///< of each; undefined before the first pass
  Tensor squares_;               ///< of the values and gradients of each piece
};

/// Where in a forward pass that gave a loss that is not finite such values come from, as the end of a
/// sentence; "": not on this device. Runs the pass again, without the other devices and without a trace;
/// after it nothing comes of the iteration.
struct NotFinite {
  std::string text;
  bool in_data = false;  ///< in what a source gave
};
NotFinite find_not_finite(Net& net, Pass pass);

}  // namespace banyan
