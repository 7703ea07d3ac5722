// `trainer time --data`: the data layers of a net without the net. Each part of the work on one core, then
// all of it on the threads that the layer would run.
#include <glog/logging.h>

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/input_rates.hpp"
#include "banyan/train/commands.hpp"

namespace banyan {

namespace {

struct LayerRates {
  std::string layer, source;
  std::uint64_t records = 0, batch = 0;
  data::InputRates rates;

  double per_second(double seconds) const {
    return static_cast<double>(rates.items) / std::max(seconds, 1e-9);
  }
  double parts() const { return rates.read_seconds + rates.decode_seconds + rates.augment_seconds; }
  double stored_megabytes_per_second() const {
    return static_cast<double>(rates.bytes) / 1e6 / std::max(rates.read_seconds, 1e-9);
  }
};

std::string rate_text(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(value < 100 ? 1 : 0) << value;
  return out.str();
}

void log_rates(const LayerRates& layer) {
  const data::InputRates& rates = layer.rates;
  const auto line = [&](const std::string& what, double seconds, const std::string& more) {
    LOG(INFO) << "  " << std::left << std::setw(10) << what << std::right << std::setw(12)
              << rate_text(layer.per_second(seconds)) << " samples/s" << more;
  };
  LOG(INFO) << "Layer " << banyan::quoted(layer.layer) << ": " << layer.source << ", " << layer.records
            << " records, batch " << layer.batch << "; " << rates.items << " samples";
  line("source", rates.read_seconds,
       cat(" on one core (", rate_text(layer.stored_megabytes_per_second()), " MB/s)"));
  line("decode", rates.decode_seconds, " on one core");
  line("augment", rates.augment_seconds, " on one core");
  line("all three", layer.parts(), " on one core");
  line("pipeline", rates.pipeline_seconds,
       cat(" with ", rates.threads, rates.threads == 1 ? " thread, " : " threads, ",
           rate_text(layer.per_second(rates.pipeline_cpu_seconds)), " per core"));
}

std::string json_of(const LayerRates& layer) {
  std::ostringstream out;
  const data::InputRates& rates = layer.rates;
  out << "{\"layer\": " << json_string(layer.layer) << ", \"source\": " << json_string(layer.source)
      << ", \"records\": " << layer.records << ", \"batch\": " << layer.batch
      << ", \"samples\": " << rates.items
      << ",\n  \"source_bytes_per_second\": " << 1e6 * layer.stored_megabytes_per_second()
      << ",\n  \"samples_per_second\": {\"source\": " << layer.per_second(rates.read_seconds)
      << ", \"decode\": " << layer.per_second(rates.decode_seconds)
      << ", \"augment\": " << layer.per_second(rates.augment_seconds)
      << ", \"all_three\": " << layer.per_second(layer.parts())
      << ", \"pipeline\": " << layer.per_second(rates.pipeline_seconds)
      << ", \"pipeline_per_core\": " << layer.per_second(rates.pipeline_cpu_seconds)
      << "},\n  \"threads\": " << rates.threads << "}";
  return out.str();
}

}  // namespace

std::string time_data(const TimeOptions& options) {
  ModelOptions of_model = options.model;
  of_model.device = options.devices.at(0);
  Model model(of_model, true);
  const auto stop = [&] { return options.signals != nullptr && options.signals->stop.load(); };
  std::vector<std::string> reports;
  bool any = false;
  for (const auto& layer : model.net().layers()) {
    auto* source = dynamic_cast<data::BatchSource*>(layer.get());
    if (source == nullptr) continue;
    any = true;
    if (stop()) break;
    const data::InputPipeline pipeline = source->pipeline();
    LayerRates measured{layer->name(), pipeline.source->name(), pipeline.source->size(),
                        pipeline.dealing.rule().batch,
                        data::measure_input(pipeline, model.device(), of_model.iterations, stop)};
    log_rates(measured);
    reports.push_back(json_of(measured));
  }
  if (!any)
    bad_input("--data: the net ", banyan::quoted(of_model.model),
              " has no layer that reads a data set in the ",
              of_model.phase == Phase::train ? "TRAIN" : "TEST", " phase");
  return options.json ? "{\"layers\": [\n " + join(reports, ",\n ") + "]}\n" : "";
}

}  // namespace banyan
