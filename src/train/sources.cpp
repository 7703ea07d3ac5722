#include "sources.hpp"

#include <algorithm>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {

void Sources::add(const Net& net, const std::string& name) {
  for (const auto& layer : net.layers())
    if (auto* source = dynamic_cast<data::BatchSource*>(layer.get())) {
      const data::InputPipeline pipeline = source->pipeline();
      const caffe::LayerParameter& settings = layer->parameter();
      entries_.push_back({name, layer->name(), source, pipeline.source->size(), pipeline.dealing.rule().batch,
                          pipeline.prefetch.threads,
                          settings.has_data_param() || settings.has_image_data_param()});
    }
}

void Sources::set_beat(const std::function<void()>& beat) {
  for (const Entry& entry : entries_) entry.source->set_beat(beat);
}

void Sources::trace_to(const Tracing& tracing) {
  for (const Entry& entry : entries_) entry.source->trace_to(tracing);
}

void Sources::show_on(RunBoard& board, int rank) const {
  for (const Entry& entry : entries_)
    if (trains(entry)) board.add_queue(rank, entry.layer, entry.source->gauge());
}

void Sources::interrupt() {
  for (const Entry& entry : entries_) entry.source->interrupt();
}

void Sources::stop() {
  for (const Entry& entry : entries_) entry.source->stop();
}

void Sources::announce(std::uint64_t number) {
  for (const Entry& entry : entries_)
    if (trains(entry)) entry.source->announce(number);
}

void Sources::count_batches(std::uint64_t batches) {
  for (Entry& entry : entries_) {
    if (!trains(entry)) continue;
    if (!entry.counted_from) entry.counted_from = entry.source->consumed();
    entry.source->seek(entry.source->position_after(*entry.counted_from, batches));
  }
}

std::vector<std::pair<std::string, std::string>> Sources::sizes() const {
  std::vector<std::pair<std::string, std::string>> facts;
  for (const Entry& entry : entries_)
    facts.emplace_back(cat("number of records in ", quoted(entry.layer), " of the net ", quoted(entry.net)),
                       cat(entry.records));
  return facts;
}

void Sources::save(caffe::BanyanState& state) const {
  for (const Entry& entry : entries_) {
    auto& position = *state.add_source();
    position.set_net(entry.net);
    position.set_layer(entry.layer);
    position.set_consumed(entry.source->consumed());
  }
}

void Sources::restore(const caffe::BanyanState& state) {
  std::vector<const caffe::BanyanState::SourcePosition*> left;
  for (const auto& position : state.source()) left.push_back(&position);
  for (Entry& entry : entries_) {
    entry.counted_from.reset();
    const auto found = std::find_if(left.begin(), left.end(), [&](const auto* position) {
      return position->net() == entry.net && position->layer() == entry.layer;
    });
    if (found != left.end()) {
      entry.source->seek((*found)->consumed());
      left.erase(found);  // the next one of this name, which Caffe allows, has a position of its own
    } else if (entry.source->consumed() > 0) {
      entry.source->seek(0);
    }
  }
}

std::vector<metrics::Start::DataSet> Sources::describe() const {
  std::vector<metrics::Start::DataSet> described;
  for (const Entry& entry : entries_)
    described.push_back({entry.net, entry.layer, entry.source->pipeline().source->name(), entry.records});
  return described;
}

std::vector<WarningFacts::Source> Sources::facts(const std::vector<int>& test_iter) const {
  std::vector<WarningFacts::Source> facts;
  for (const Entry& entry : entries_) {
    WarningFacts::Source source{entry.net, entry.layer, entry.records, entry.batch};
    source.threads = entry.threads;
    source.takes_threads = entry.takes_threads;
    for (std::size_t k = 0; k < test_iter.size(); ++k)
      if (entry.net == cat("test", k)) source.test_iter = test_iter[k];
    facts.push_back(std::move(source));
  }
  return facts;
}

std::optional<double> Sources::epoch() const {
  const auto first = std::find_if(entries_.begin(), entries_.end(), trains);
  if (first == entries_.end() || first->records == 0) return std::nullopt;
  return static_cast<double>(first->source->consumed()) / static_cast<double>(first->records);
}

}  // namespace banyan
