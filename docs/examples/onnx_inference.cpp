// Showers from an exported generator with the C++ interface of ONNX Runtime.
//
//   c++ -std=c++17 -O2 onnx_inference.cpp -I$ORT/include -L$ORT/lib -Wl,-rpath,$ORT/lib -lonnxruntime -o onnx_inference
//   ./onnx_inference exports/mine/generator.onnx 50 90 100
//
// Arguments: model, energy in GeV, polar angle in degrees, number of showers. Prints the mean energy in the
// cells and its spread. Requests outside the trained ranges end with exit code 2.
//
// Class Generator is what a Geant4 fast-simulation model needs; docs/geant4-fast-simulation.md uses it.

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

struct Range {
  double low;
  double high;
  // In 32 bits, as the showers of a single angle are stored.
  bool contains(double value) const {
    const auto rounded = static_cast<float>(value);
    return static_cast<float>(low) <= rounded && rounded <= static_cast<float>(high);
  }
};

class Generator {
 public:
  explicit Generator(const std::string& path, std::uint64_t seed = 0)
      : fEnvironment(ORT_LOGGING_LEVEL_WARNING, "cloudgan"),
        fSession(fEnvironment, path.c_str(), options()),
        fRandom(seed) {
    const Ort::ModelMetadata facts = fSession.GetModelMetadata();
    energyGeV = range(facts, "energy_gev");
    thetaRad = range(facts, "theta_rad");
    // The names of the inputs are energy, theta, noise, in this order.
    fNormals = fSession.GetInputTypeInfo(2).GetTensorTypeAndShapeInfo().GetShape().at(1);
    const auto shape = fSession.GetOutputTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape();
    cells = {shape.at(1), shape.at(2), shape.at(3)};
  }

  // Cells of one shower in GeV: index (x * cells[1] + y) * cells[2] + z.
  // Throws std::out_of_range outside the trained ranges; the model itself cannot refuse.
  const std::vector<float>& shower(double energy, double theta) {
    if (!energyGeV.contains(energy)) throw std::out_of_range(message("energy (GeV)", energyGeV));
    if (!thetaRad.contains(theta)) throw std::out_of_range(message("theta (rad)", thetaRad));
    std::array<float, 1> energies{static_cast<float>(energy)};
    std::array<float, 1> thetas{static_cast<float>(theta)};
    fNoise.resize(static_cast<std::size_t>(fNormals));
    for (float& value : fNoise) value = fNormal(fRandom);

    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    const std::array<std::int64_t, 1> one{1};
    const std::array<std::int64_t, 2> row{1, fNormals};
    std::array<Ort::Value, 3> inputs{
        Ort::Value::CreateTensor<float>(memory, energies.data(), 1, one.data(), 1),
        Ort::Value::CreateTensor<float>(memory, thetas.data(), 1, one.data(), 1),
        Ort::Value::CreateTensor<float>(memory, fNoise.data(), fNoise.size(), row.data(), 2)};
    const std::array<const char*, 3> names{"energy", "theta", "noise"};
    const std::array<const char*, 1> results{"ecal"};
    const auto outputs = fSession.Run(Ort::RunOptions{nullptr}, names.data(), inputs.data(),
                                      inputs.size(), results.data(), results.size());
    const float* first = outputs.front().GetTensorData<float>();
    fShower.assign(first, first + cells[0] * cells[1] * cells[2]);
    return fShower;
  }

  Range energyGeV{};
  Range thetaRad{};
  std::array<std::int64_t, 3> cells{};

 private:
  static Ort::SessionOptions options() {
    Ort::SessionOptions chosen;
    chosen.SetIntraOpNumThreads(1);  // Geant4 has its own threads: one session for each
    chosen.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
    return chosen;
  }

  static Range range(const Ort::ModelMetadata& facts, const char* name) {
    Ort::AllocatorWithDefaultOptions allocator;
    const auto found = facts.LookupCustomMetadataMapAllocated(name, allocator);
    if (!found) throw std::runtime_error(std::string("the model has no metadata ") + name);
    const std::string text = found.get();
    const auto colon = text.find(':');
    return {std::stod(text.substr(0, colon)), std::stod(text.substr(colon + 1))};
  }

  static std::string message(const std::string& name, const Range& known) {
    return name + ": trained on " + number(known.low) + " to " + number(known.high);
  }

  static std::string number(double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }

  Ort::Env fEnvironment;
  Ort::Session fSession;
  std::mt19937_64 fRandom;
  std::normal_distribution<float> fNormal{0.0F, 1.0F};
  std::int64_t fNormals = 0;
  std::vector<float> fNoise;
  std::vector<float> fShower;
};

#ifndef CLOUDGAN_GENERATOR_ONLY
int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: onnx_inference MODEL ENERGY_GEV THETA_DEGREES SHOWERS\n";
    return 2;
  }
  try {
    setenv("ORT_DISABLE_TELEMETRY", "1", 0);  // else ONNX Runtime 1.29 and later report to Microsoft
    Generator generator(argv[1]);
    const double energy = std::stod(argv[2]);
    const double theta = std::stod(argv[3]) * std::acos(-1.0) / 180.0;
    const int showers = std::stoi(argv[4]);
    double sum = 0.0;
    double squares = 0.0;
    for (int number = 0; number < showers; ++number) {
      double total = 0.0;
      for (const float cell : generator.shower(energy, theta)) total += cell;
      sum += total;
      squares += total * total;
    }
    const double mean = sum / showers;
    const double variance = std::max(0.0, squares / showers - mean * mean);
    std::cout << showers << " showers of " << generator.cells[0] << "x" << generator.cells[1] << "x"
              << generator.cells[2] << " cells\n"
              << "energy in the cells: " << mean << " GeV, spread " << std::sqrt(variance) << " GeV\n";
  } catch (const std::out_of_range& error) {
    std::cerr << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
#endif
