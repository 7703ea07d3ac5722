// SourceLayer: what the layers that read data sets have in common. Internal to the room. Unless a layer has
// an ItemWriter of its own:
//
//   outputs[0]  items x C x H x W: augmented pixels
//   outputs[1]  items: labels (optional)
//
// Batches are made by the prefetcher's threads, started by the first prepare(); forward() copies the batch to
// the device in stream order.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/data/assembler.hpp"
#include "banyan/data/augmenter.hpp"
#include "banyan/data/batch_source.hpp"
#include "banyan/data/shared_batches.hpp"
#include "banyan/layers/layer.hpp"

namespace banyan {

class SourceLayer : public Layer, public data::BatchSource {
 public:
  explicit SourceLayer(const caffe::LayerParameter& parameter, const LayerOptions& options,
                       Arity arity = {0, 0, 1, 2}, LayoutRule layout = LayoutRule::channels_last);

  void read_settings() override;
  void setup(const Blobs& inputs, const Blobs& outputs) override;
  void reshape(const Blobs& inputs, const Blobs& outputs) override;
  void prepare(Pass& pass, const Blobs& outputs) override;
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

  data::InputPipeline pipeline() override;
  std::uint64_t consumed() const override { return consumed_; }
  void seek(std::uint64_t consumed) override;
  void announce(std::uint64_t number) override;
  std::uint64_t position_after(std::uint64_t consumed, std::uint64_t batches) override;
  void begin_test_pass(int test_iter) override;
  void end_test_pass() override;
  void interrupt() override { *interrupted_ = true; }
  void set_beat(std::function<void()> beat) override { beat_ = std::move(beat); }
  void stop() override {
    if (prefetcher_) prefetcher_->stop();
  }
  void trace_to(const Tracing& tracing) override { tracing_ = tracing; }
  std::shared_ptr<const QueueGauge> gauge() const override { return gauge_; }

 protected:
  /// Settings from the layer's own message.
  struct Settings {
    std::string field;  ///< "data_param", for messages
    std::uint64_t batch_size = 0;
    bool batch_size_is_total = false;
    data::EpochEnd epoch_end = data::EpochEnd::wrap;
    bool shuffle = false;
    std::uint64_t together = 1;     ///< so many records stay together when they are shuffled
    std::uint64_t random_skip = 0;  ///< start at a random item below this; 0: at the first
    int threads = 1;
  };
  /// As data_param has them, without a check.
  static Settings settings_of(const caffe::DataParameter& from);
  /// As messages of lists have them, without a check.
  template <class Message>
  static Settings settings_of_list(const char* field, const Message& from) {
    Settings settings;
    settings.field = field;
    settings.batch_size = from.batch_size();
    settings.shuffle = from.shuffle();
    settings.random_skip = from.rand_skip();
    return settings;
  }
  /// Refuses settings of the source that belong into transform_param.
  template <class Message>
  void refuse_transform(const char* message, const Message& from) const {
    for (const auto& [field, set] : {std::pair{"scale", from.has_scale()},
                                     {"mean_file", from.has_mean_file()},
                                     {"crop_size", from.has_crop_size()},
                                     {"mirror", from.has_mirror()}})
      if (set) refuse(std::string(message) + "." + field, "belongs into transform_param");
  }
  /// Refuses one of new_height and new_width alone, and too large ones.
  template <class Message>
  void check_new_size(const char* message, const Message& from) const {
    constexpr std::uint32_t kMost = 1 << 15;
    if ((from.new_height() > 0) != (from.new_width() > 0) ||
        std::max(from.new_height(), from.new_width()) > kMost)
      refuse(message,
             "must set both of new_height and new_width, or neither, to at most " + std::to_string(kMost));
  }
  /// Checks and returns the settings; throws bad_input. Opens nothing.
  virtual Settings settings() const = 0;
  virtual std::shared_ptr<data::RecordSource> open() const = 0;
  /// Checks transform_param without reading a file; throws bad_input.
  virtual void check_transform() const;
  /// What turns the source's records into items; one output for each of its entries (and its table), the last
  /// may be left out.
  virtual std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource& source) const;
  /// Which of the writer's outputs (its table is the last one) is output `k` of the layer.
  virtual std::size_t output_of_writer(std::size_t k) const { return k; }
  /// For random numbers of `purpose`, such as "order".
  ops::RandomKey key_of(const std::string& purpose) const;
  /// Items in a batch of all devices (training) or in a whole batch (test).
  std::uint64_t items_per_batch(const Settings& settings) const;
  [[noreturn]] void refuse(const std::string& field, const std::string& why) const;

 private:
  bool dealt_whole() const { return options().net_phase == Phase::test; }
  Layout first_layout() const;
  Settings checked_settings() const;
  void open_source();
  void open_here();
  void open_elsewhere();
  data::Prefetcher::MakeFill fill_elsewhere(const data::AssemblerOptions& assembly) const;
  void start(Device& device);
  void begin_pass(std::uint64_t test_iter);
  std::vector<Shape> first_item() const;
  data::Share first_share() const;
  void set_shapes(const Blobs& outputs, const std::vector<Shape>& shapes) const;

  std::shared_ptr<data::SharedBatches> shared_;  // nullptr: every process reads for itself
  std::string shared_name_;
  Settings settings_;
  std::shared_ptr<data::RecordSource> source_;
  std::shared_ptr<const data::EpochOrder> order_;
  std::shared_ptr<const data::ItemWriter> writer_;
  std::unique_ptr<data::Dealing> dealing_;
  std::vector<Shape> item_;  // of the first item; the shapes of an empty share

  std::uint64_t consumed_ = 0;
  bool sought_ = false;
  std::optional<std::uint64_t> counted_from_;     // item where announced batches are counted from
  std::vector<std::uint64_t> announced_batches_;  // first items, until there is a prefetcher
  // Test passes.
  std::uint64_t test_iter_ = 0;     // of the pass that the prefetcher is working on; 0: none yet
  std::uint64_t batches_left_ = 0;  // of this device in the pass
  bool announced_ = false;

  std::shared_ptr<std::atomic<bool>> interrupted_ = std::make_shared<std::atomic<bool>>(false);
  std::function<void()> beat_;
  Tracing tracing_;
  std::shared_ptr<QueueGauge> gauge_ = std::make_shared<QueueGauge>();
  std::unique_ptr<data::Prefetcher> prefetcher_;
  data::HostBatch* batch_ = nullptr;  // the prefetcher's, valid from prepare() to the next one
};

}  // namespace banyan
