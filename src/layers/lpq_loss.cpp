// LpqLoss (PWC-Net): the sum over all locations of (sum over the channels of (|d| + p_epsilon)^p +
// q_epsilon)^q, divided by the batch; d is the difference of the inputs, or the only one, and 0 where it is
// no number. p and q can change with the iterations of the run, so a resumed run goes on with them; in tests
// the first ones count.
#include "location_loss_layer.hpp"

namespace banyan {
namespace {

class LpqLossLayer : public LocationLossLayer {
 public:
  using LocationLossLayer::LocationLossLayer;

  void read_settings() override {
    refuse_divisors();
    const auto& s = settings();
    if (s.p_size() != s.q_size() || s.p_size() < 1)
      refuse("there must be as many p as q, at least one; found ", s.p_size(), " and ", s.q_size());
    const int starts = s.pq_episode_starts_at_iter_size();
    if (starts == 0 && s.p_size() > 1)
      refuse("several p need pq_episode_starts_at_iter, one for each; found ", s.p_size(), " without it");
    if (starts > 0 && starts != s.p_size())
      refuse("pq_episode_starts_at_iter has ", starts, " numbers for ", s.p_size(), " p");
    for (int i = 0; i < starts; ++i)
      if (i == 0 ? start(0) != 0 : start(i) <= start(i - 1))
        refuse("pq_episode_starts_at_iter must begin with 0 and rise; number ", i + 1, " is ", start(i));
    for (int i = 0; i < s.p_size(); ++i)
      if (!(s.p(i) > 0) || !(s.q(i) > 0) || !(s.p(i) <= kMost) || !(s.q(i) <= kMost))
        refuse("p and q must be above 0 and at most ", kMost, "; found ", s.p(i), " and ", s.q(i));
    if (!(s.p_epsilon() >= 0) || !(s.q_epsilon() >= 0))
      refuse("p_epsilon and q_epsilon must not be negative; found ", s.p_epsilon(), " and ", s.q_epsilon());
    loss_.first_shift = s.p_epsilon();
    loss_.second_shift = s.q_epsilon();
    prescaled_ = s.l2_prescale_by_channels();
    by_numbers_ = s.normalize_by_num_entries();
    const bool changes = options().net_phase == Phase::train;
    for (int i = 0; i < (changes ? s.p_size() : 1); ++i)
      powers_.push_back({i == 0 ? 0 : start(i), s.p(i), s.q(i), 1});
  }

 private:
  static constexpr float kMost = 100;
  const caffe::LpqLossParameter& settings() const { return parameter_.lpq_loss_param(); }
  std::int64_t start(int i) const { return settings().pq_episode_starts_at_iter(i); }
};

const RegisterLayer<LpqLossLayer> registered_lpq_loss(
    "LpqLoss",
    {.about = "powers of differences over the channels of each location, and of their sums (PWC-Net)",
     .message = "lpq_loss_param",
     .examples = {"p: 1 q: 0.4", "pq_episode_starts_at_iter: [0, 2] p: [2, 1] q: [0.5, 0.4] p_epsilon: 0.1"},
     .inputs = {{4, 5}, {4, 5}}});

}  // namespace
}  // namespace banyan
