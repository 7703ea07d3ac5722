#include "layers/source_layer.hpp"

#include <algorithm>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/random_parts.hpp"

namespace banyan {

namespace {

std::vector<Shape> shapes_of(const data::HostBatch& batch) {
  std::vector<Shape> shapes;
  for (const data::HostBatch::Array& array : batch.arrays) shapes.push_back(array.shape);
  return shapes;
}

}  // namespace

SourceLayer::SourceLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, Arity arity,
                         LayoutRule layout)
    : Layer(parameter, options,
            {.arity = arity,
             .source = true,
             .layout = layout,
             .backward_reads_inputs = false,
             .backward_reads_outputs = false,
             .repeatable = false}) {
  const data::SharingScope* scope = data::SharingScope::current();
  if (scope == nullptr || scope->shared() == nullptr) return;
  shared_ = scope->shared();
  shared_name_ = scope->next_name(name());
}

void SourceLayer::refuse(const std::string& field, const std::string& why) const {
  bad_input("layer ", banyan::quoted(name()), ": ", field, " ", why);
}

SourceLayer::Settings SourceLayer::checked_settings() const {
  Settings checked = settings();
  if (checked.batch_size == 0) refuse(checked.field + ".batch_size", "must be positive");
  return checked;
}

SourceLayer::Settings SourceLayer::settings_of(const caffe::DataParameter& from) {
  Settings settings;
  settings.field = "data_param";
  settings.batch_size = from.batch_size();
  settings.batch_size_is_total = from.batch_size_is_total();
  settings.epoch_end = from.epoch_end() == caffe::PARTIAL ? data::EpochEnd::partial : data::EpochEnd::wrap;
  settings.shuffle = from.shuffle();
  settings.threads = static_cast<int>(std::clamp<std::uint32_t>(from.threads(), 1, 256));
  return settings;
}

void SourceLayer::read_settings() {
  checked_settings();
  check_transform();
}

void SourceLayer::check_transform() const {
  data::check_part_transform(parameter().transform_param(), name(), options().phase == Phase::train);
}

std::shared_ptr<const data::ItemWriter> SourceLayer::make_writer(const data::RecordSource&) const {
  return std::make_shared<data::PartWriter>(parameter().transform_param(), options().phase == Phase::train,
                                            options().seed, ops::stream_of(name().c_str()), name());
}

ops::RandomKey SourceLayer::key_of(const std::string& purpose) const {
  return {options().seed, ops::stream_of((name() + " " + purpose).c_str()), 0};
}

/// A test batch goes to one device as a whole; a training batch is dealt to all of them.
std::uint64_t SourceLayer::items_per_batch(const Settings& settings) const {
  const bool per_device = !settings.batch_size_is_total && !dealt_whole();
  return settings.batch_size * static_cast<std::uint64_t>(per_device ? options().devices : 1);
}

Layout SourceLayer::first_layout() const {
  const bool last = options().channels_last && traits().layout == LayoutRule::channels_last;
  return last ? Layout::channels_last : Layout::contiguous;
}

void SourceLayer::setup(const Blobs&, const Blobs&) { open_source(); }

void SourceLayer::open_source() {
  if (source_) return;
  settings_ = checked_settings();
  check_transform();
  const bool elsewhere = shared_ && !shared_->has_data();
  if (elsewhere)
    open_elsewhere();
  else
    open_here();
  data::DealingRule rule;
  rule.records = source_->size();
  rule.rank = options().rank;
  rule.devices = options().devices;
  rule.epoch_end = settings_.epoch_end;
  rule.batch = items_per_batch(settings_);
  if (rule.records % settings_.together != 0)
    refuse(settings_.field, cat("keeps ", settings_.together, " records together, which do not divide the ",
                                rule.records, " of the source"));
  dealing_ = std::make_unique<data::Dealing>(rule);
  order_ = std::make_shared<data::EpochOrder>(rule.records, settings_.shuffle, key_of("order"),
                                              source_->parts(), settings_.together);
  if (!sought_ && settings_.random_skip > 0)
    consumed_ = ops::philox(key_of("skip").key(), 0, 0).v[0] % settings_.random_skip;
  if (!elsewhere) item_ = first_item();
  if (shared_ && !elsewhere) shared_->offer(shared_name_, pipeline());
}

void SourceLayer::open_here() {
  try {
    source_ = open();
  } catch (Error& error) {
    error.add_context("while opening the source of layer " + banyan::quoted(name()));
    throw;
  }
  writer_ = make_writer(*source_);
}

std::vector<Shape> SourceLayer::first_item() const {
  const auto reader = source_->reader();
  data::Record record;
  record.batch = consumed_;
  const std::uint64_t position = order_->record(dealing_->epoch(consumed_), dealing_->record(consumed_));
  data::read_record(*reader, position, record, consumed_);
  const caffe::TransformationParameter& transform = parameter().transform_param();
  if (!record.encoded && (transform.force_color() || transform.force_gray()) && options().rank == 0)
    log_warning(cat("layer ", banyan::quoted(name()),
                    ": force_color and force_gray have no effect on records that are not encoded images"));
  try {
    return writer_->shapes(record, consumed_);
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
    set_shapes(outputs, shapes_of(*batch_));
    return;
  }
  open_source();
  set_shapes(outputs, data::batch_shapes(*writer_, item_, first_share().count));
}

void SourceLayer::set_shapes(const Blobs& outputs, const std::vector<Shape>& shapes) const {
  for (std::size_t k = 0; k < outputs.size(); ++k) outputs[k]->shape = shapes.at(output_of_writer(k));
  outputs[0]->layout = first_layout();
}

data::InputPipeline SourceLayer::pipeline() {
  open_source();
  data::InputPipeline made{source_, order_, writer_, *dealing_, {}, {}};
  data::AssemblerOptions& assembly = made.assembly;
  assembly.dtype = dtype();
  assembly.layout = first_layout();
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
  prefetch.gauge = gauge_;
  if (shared_ && !shared_->has_data()) made.elsewhere = fill_elsewhere(assembly);
  return made;
}

void SourceLayer::start(Device& device) {
  const data::ShareSequence shares = dealt_whole()
                                         ? data::ShareSequence::test(*dealing_, consumed_, test_iter_)
                                     : counted_from_ ? data::ShareSequence::announced(*dealing_)
                                                     : data::ShareSequence::training(*dealing_, consumed_);
  prefetcher_ = pipeline().start(device, shares);
  for (const std::uint64_t first : announced_batches_) prefetcher_->announce(first);
  announced_batches_.clear();
}

void SourceLayer::announce(std::uint64_t number) {
  if (dealt_whole())
    runtime_failure("layer ", banyan::quoted(name()), " belongs to tests: its batches are not announced");
  open_source();
  if (!counted_from_) counted_from_ = consumed_;
  const std::uint64_t first = position_after(*counted_from_, number);
  if (prefetcher_)
    prefetcher_->announce(first);
  else
    announced_batches_.push_back(first);
}

std::uint64_t SourceLayer::position_after(std::uint64_t consumed, std::uint64_t batches) {
  open_source();
  return dealing_->batch_start(consumed, batches);
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
  set_shapes(outputs, shapes_of(*batch_));
}

void SourceLayer::forward(Pass& pass, const Blobs&, const Blobs& outputs) {
  if (batch_ == nullptr) runtime_failure("layer ", banyan::quoted(name()), ": forward before prepare");
  Stream& stream = pass.context->stream();
  const Tensor& first = outputs[0]->data;
  if (batch_->share.count > 0 && first.layout() != outputs[0]->layout && !first.is_contiguous())
    runtime_failure("layer ", banyan::quoted(name()),
                    ": its output is bound in another layout than it was given");
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (const std::size_t bytes = outputs[k]->data.bytes(); bytes > 0)
      stream.copy(outputs[k]->data.raw(), batch_->arrays[output_of_writer(k)].memory.get(), bytes);
  if (!batch_->copied) batch_->copied = pass.context->device().create_event();
  stream.record(*batch_->copied);
}

void SourceLayer::seek(std::uint64_t consumed) {
  batch_ = nullptr;
  prefetcher_.reset();
  consumed_ = consumed;
  sought_ = true;
  counted_from_.reset();
  announced_batches_.clear();
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

void SourceLayer::end_test_pass() {
  if (batches_left_ == 0) return;
  batch_ = nullptr;
  prefetcher_.reset();
  consumed_ = dealing_->batch_start(consumed_, test_iter_);
  batches_left_ = 0;
}

}  // namespace banyan
