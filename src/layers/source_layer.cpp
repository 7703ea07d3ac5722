#include "layers/source_layer.hpp"

#include <algorithm>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"

namespace banyan {

SourceLayer::SourceLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
    : Layer(parameter, options,
            {.arity = {0, 0, 1, 2},
             .source = true,
             .layout = LayoutRule::channels_last,
             .backward_reads_inputs = false,
             .backward_reads_outputs = false,
             .repeatable = false}) {}

void SourceLayer::refuse(const std::string& field, const std::string& why) const {
  bad_input("layer ", banyan::quoted(name()), ": ", field, " ", why);
}

SourceLayer::Settings SourceLayer::checked_settings() const {
  Settings checked = settings();
  if (checked.batch_size == 0) refuse(checked.field + ".batch_size", "must be positive");
  return checked;
}

void SourceLayer::check_settings() const {
  checked_settings();
  data::check_transform(parameter().transform_param(), name());
}

void SourceLayer::setup(const Blobs&, const Blobs&) { open_source(); }

void SourceLayer::open_source() {
  if (source_) return;
  settings_ = checked_settings();
  const ops::RandomKey key{options().seed, ops::stream_of(name().c_str()), 0};
  augmenter_ = std::make_shared<data::Augmenter>(
      parameter().transform_param(), options().phase == Phase::train, key.seed, key.stream, name());
  try {
    source_ = open();
  } catch (Error& error) {
    error.add_context("while opening the source of layer " + banyan::quoted(name()));
    throw;
  }
  data::DealingRule rule;
  rule.records = source_->size();
  rule.rank = options().rank;
  rule.devices = options().devices;
  rule.epoch_end = settings_.epoch_end;
  // A test batch goes to one device as a whole; a training batch is dealt to all of them.
  const bool per_device = !settings_.batch_size_is_total && !dealt_whole();
  rule.batch = settings_.batch_size * static_cast<std::uint64_t>(per_device ? rule.devices : 1);
  dealing_ = std::make_unique<data::Dealing>(rule);
  const ops::RandomKey order_key{key.seed, ops::stream_of((name() + " order").c_str()), 0};
  order_ = std::make_shared<data::EpochOrder>(rule.records, settings_.shuffle, order_key);
  if (!sought_ && settings_.random_skip > 0) {
    const ops::RandomKey skip_key{key.seed, ops::stream_of((name() + " skip").c_str()), 0};
    consumed_ = ops::philox(skip_key.key(), 0, 0).v[0] % settings_.random_skip;
  }
  item_ = first_item();
}

data::ItemShape SourceLayer::first_item() const {
  const auto reader = source_->reader();
  data::Record record;
  const std::uint64_t position = order_->record(dealing_->epoch(consumed_), dealing_->record(consumed_));
  data::read_record(*reader, position, record);
  const caffe::TransformationParameter& transform = parameter().transform_param();
  if (!record.encoded && (transform.force_color() || transform.force_gray()) && options().rank == 0)
    log_warning(cat("layer ", banyan::quoted(name()),
                    ": force_color and force_gray have no effect on records that are not encoded images"));
  try {
    return augmenter_->output_shape(record);
  } catch (const Error& error) {
    throw Error(error.kind(), reader->describe(position) + ": " + error.message());
  }
}

data::Share SourceLayer::first_share() const {
  if (!dealt_whole()) return dealing_->deal(consumed_);
  data::Share share;
  share.count = dealing_->batch_end(consumed_) - consumed_;
  return share;
}

void SourceLayer::reshape(const Blobs&, const Blobs& outputs) {
  if (batch_ != nullptr) {
    set_shapes(outputs, batch_->share.count, batch_->item);
    return;
  }
  open_source();
  set_shapes(outputs, first_share().count, item_);
}

void SourceLayer::set_shapes(const Blobs& outputs, std::uint64_t items, const data::ItemShape& item) const {
  const auto count = static_cast<std::int64_t>(items);
  outputs[0]->shape = Shape{count, item.channels, item.height, item.width};
  outputs[0]->layout = options().channels_last ? Layout::channels_last : Layout::contiguous;
  if (outputs.size() > 1) outputs[1]->shape = Shape{count};
}

data::InputPipeline SourceLayer::pipeline() {
  open_source();
  data::InputPipeline made{source_, order_, augmenter_, *dealing_, {}, {}};
  data::AssemblerOptions& assembly = made.assembly;
  assembly.dtype = dtype();
  assembly.layout = options().channels_last ? Layout::channels_last : Layout::contiguous;
  assembly.empty_item = item_;
  const auto sharers = static_cast<std::uint64_t>(dealt_whole() ? 1 : options().devices);
  assembly.largest_share = (dealing_->rule().batch + sharers - 1) / sharers;
  data::Prefetcher::Options& prefetch = made.prefetch;
  const auto ahead = parameter().data_param().prefetch();
  prefetch.depth = ahead == 0 ? 4 : static_cast<int>(std::min<std::uint32_t>(ahead, 1024));
  prefetch.threads = settings_.threads;
  prefetch.name = source_->name();
  prefetch.interrupted = interrupted_;
  prefetch.items = assembly.items = std::make_shared<std::atomic<std::uint64_t>>(0);
  prefetch.beat = beat_;
  prefetch.tracing = tracing_;
  return made;
}

void SourceLayer::start(Device& device) {
  const data::ShareSequence shares = dealt_whole()
                                         ? data::ShareSequence::test(*dealing_, consumed_, test_iter_)
                                         : data::ShareSequence::training(*dealing_, consumed_);
  prefetcher_ = pipeline().start(device, shares);
}

void SourceLayer::prepare(Pass& pass, const Blobs& outputs) {
  if (*interrupted_) throw Error(ErrorKind::aborted, "reading was interrupted");
  open_source();
  if (dealt_whole() && batches_left_ == 0) {
    if (announced_)
      runtime_failure("layer ", banyan::quoted(name()), ": a test pass of ", test_iter_,
                      " batches has no more for device ", options().rank);
    begin_pass(static_cast<std::uint64_t>(options().devices));
  }
  if (!prefetcher_) start(pass.context->device());
  batch_ = nullptr;
  batch_ = &prefetcher_->take();
  if (dealt_whole()) --batches_left_;
  consumed_ = batch_->share.consumed;
  if (batch_->share.ends_epoch && options().rank == 0) log_info("Restarting data prefetching from start.");
  set_shapes(outputs, batch_->share.count, batch_->item);
}

void SourceLayer::forward(Pass& pass, const Blobs&, const Blobs& outputs) {
  if (batch_ == nullptr) runtime_failure("layer ", banyan::quoted(name()), ": forward before prepare");
  Stream& stream = pass.context->stream();
  if (batch_->share.count > 0) {
    Tensor& pixels = outputs[0]->data;
    if (pixels.layout() != outputs[0]->layout && !pixels.is_contiguous())
      runtime_failure("layer ", banyan::quoted(name()),
                      ": its output is bound in another layout than it was given");
    stream.copy(pixels.raw(), batch_->data.get(), pixels.bytes());
    if (outputs.size() > 1)
      stream.copy(outputs[1]->data.raw(), batch_->labels.get(), outputs[1]->data.bytes());
  }
  if (!batch_->copied) batch_->copied = pass.context->device().create_event();
  stream.record(*batch_->copied);
}

void SourceLayer::seek(std::uint64_t consumed) {
  batch_ = nullptr;
  prefetcher_.reset();
  consumed_ = consumed;
  sought_ = true;
  test_iter_ = batches_left_ = 0;
  announced_ = false;
}

void SourceLayer::begin_test_pass(int test_iter) {
  if (!dealt_whole())
    runtime_failure("layer ", banyan::quoted(name()), " belongs to training: it has no test passes");
  if (test_iter < 1) bad_input("a test pass needs at least one batch, test_iter is ", test_iter);
  open_source();
  begin_pass(static_cast<std::uint64_t>(test_iter));
  announced_ = true;
}

void SourceLayer::begin_pass(std::uint64_t test_iter) {
  // After a complete pass the prefetcher has continued as if the next had the same length; otherwise its
  // contents are useless.
  if (prefetcher_ && (test_iter != test_iter_ || batches_left_ > 0)) {
    batch_ = nullptr;
    prefetcher_.reset();
  }
  test_iter_ = test_iter;
  batches_left_ = data::batches_served(test_iter, options().rank, options().devices);
  if (batches_left_ == 0) consumed_ = dealing_->batch_start(consumed_, test_iter);
}

}  // namespace banyan
