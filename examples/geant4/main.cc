// Electrons that enter a calorimeter become showers of an exported generator: no tracking inside.
//
//   fast_calorimeter exports/mine/generator.onnx 50 90 100
//
// Arguments: model, energy in GeV, polar angle in degrees, number of electrons. Prints the mean energy in the
// silicon. Electrons outside the trained ranges, and all other particles, are tracked by Geant4.

#define CLOUDGAN_GENERATOR_ONLY
#include "onnx_inference.cpp"

#include <memory>

#include "FTFP_BERT.hh"
#include "G4Box.hh"
#include "G4Electron.hh"
#include "G4FastHit.hh"
#include "G4FastSimHitMaker.hh"
#include "G4FastSimulationPhysics.hh"
#include "G4FastStep.hh"
#include "G4FastTrack.hh"
#include "G4LogicalVolume.hh"
#include "G4NistManager.hh"
#include "G4PVPlacement.hh"
#include "G4ParticleGun.hh"
#include "G4Region.hh"
#include "G4RunManager.hh"
#include "G4RunManagerFactory.hh"
#include "G4SDManager.hh"
#include "G4SystemOfUnits.hh"
#include "G4VFastSimSensitiveDetector.hh"
#include "G4VFastSimulationModel.hh"
#include "G4VSensitiveDetector.hh"
#include "G4VUserActionInitialization.hh"
#include "G4VUserDetectorConstruction.hh"
#include "G4VUserPrimaryGeneratorAction.hh"
#include "Randomize.hh"

// The CLIC ECAL of the training showers: 25 layers of 5.1 mm cells, the last 8 with thicker tungsten.
constexpr G4double kCell = 5.1 * mm, kHalfWidth = 400 * mm, kDepth = 134 * mm;
G4double siliconDepth(G4int layer) {
  return layer < 17 ? (layer + 0.7) * 4.4 * mm : 17 * 4.4 * mm + (layer - 17 + 0.8) * 6.8 * mm;
}

G4double gSilicon = 0;  // energy of all electrons; one thread

// What Geant4 gives a sensitive detector: its own steps, and the hits of the model.
class Silicon : public G4VSensitiveDetector, public G4VFastSimSensitiveDetector {
 public:
  Silicon() : G4VSensitiveDetector("silicon") {}
  G4bool ProcessHits(G4Step*, G4TouchableHistory*) override { return false; }
  G4bool ProcessHits(const G4FastHit* hit, const G4FastTrack*, G4TouchableHistory*) override {
    gSilicon += hit->GetEnergy();
    return true;
  }
};

class GeneratorModel : public G4VFastSimulationModel {
 public:
  GeneratorModel(G4Region* envelope, const std::string& path)
      : G4VFastSimulationModel("cloudgan", envelope),
        fGenerator(path, static_cast<std::uint64_t>(G4UniformRand() * 9e15)) {}

  // The particle of the training, see the model card.
  G4bool IsApplicable(const G4ParticleDefinition& particle) override {
    return &particle == G4Electron::Definition();
  }

  // The ONNX model cannot refuse: outside the trained ranges Geant4 tracks the electron.
  G4bool ModelTrigger(const G4FastTrack& track) override {
    return fGenerator.energyGeV.contains(track.GetPrimaryTrack()->GetKineticEnergy() / GeV)
        && fGenerator.thetaRad.contains(theta(track));
  }

  void DoIt(const G4FastTrack& track, G4FastStep& step) override {
    const G4double energy = track.GetPrimaryTrack()->GetKineticEnergy();
    const std::vector<float>& shower = fGenerator.shower(energy / GeV, theta(track));
    step.KillPrimaryTrack();
    step.SetPrimaryTrackPathLength(0.0);
    step.SetTotalEnergyDeposited(energy);
    const auto [nx, ny, nz] = fGenerator.cells;
    // The first call of a hit maker sets up its navigator and takes the position of the track.
    fHitMaker.make(G4FastHit(track.GetPrimaryTrackLocalPosition(), 1e-9 * eV), track);
    std::size_t cell = 0;
    for (G4int x = 0; x < nx; ++x)
      for (G4int y = 0; y < ny; ++y)
        for (G4int z = 0; z < nz; ++z, ++cell) {
          if (shower[cell] <= 0) continue;
          // The image is centred on the axis: here it enters at the centre of the front face.
          const G4ThreeVector place((x - (nx - 1) / 2.0) * kCell, (y - (ny - 1) / 2.0) * kCell,
                                    siliconDepth(z) - kDepth / 2);
          fHitMaker.make(G4FastHit(place, shower[cell] * GeV), track);
        }
  }

 private:
  // 90 degrees is perpendicular to the layers; other angles tilt the axis in the plane of y and depth.
  static G4double theta(const G4FastTrack& track) {
    return std::acos(track.GetPrimaryTrackLocalDirection().y());
  }

  Generator fGenerator;
  G4FastSimHitMaker fHitMaker;
};

// One block in place of the stack: the model knows the layers, and tracked electrons need the full one.
class Detector : public G4VUserDetectorConstruction {
 public:
  explicit Detector(std::string path) : fPath(std::move(path)) {}

  G4VPhysicalVolume* Construct() override {
    auto* nist = G4NistManager::Instance();
    auto* world = new G4LogicalVolume(new G4Box("world", 1 * m, 1 * m, 1 * m),
                                      nist->FindOrBuildMaterial("G4_Galactic"), "world");
    fCalorimeter = new G4LogicalVolume(new G4Box("calorimeter", kHalfWidth, kHalfWidth, kDepth / 2),
                                       nist->FindOrBuildMaterial("G4_W"), "calorimeter");
    new G4PVPlacement(nullptr, G4ThreeVector(0, 0, kDepth / 2), fCalorimeter, "calorimeter", world, false, 0);
    fRegion = new G4Region("calorimeter");
    fRegion->AddRootLogicalVolume(fCalorimeter);
    return new G4PVPlacement(nullptr, G4ThreeVector(), world, "world", nullptr, false, 0);
  }

  void ConstructSDandField() override {  // once per thread: each has its own session and random numbers
    auto* silicon = new Silicon;
    G4SDManager::GetSDMpointer()->AddNewDetector(silicon);
    SetSensitiveDetector(fCalorimeter, silicon);
    new GeneratorModel(fRegion, fPath);
  }

 private:
  std::string fPath;
  G4LogicalVolume* fCalorimeter = nullptr;
  G4Region* fRegion = nullptr;
};

class Gun : public G4VUserPrimaryGeneratorAction {
 public:
  Gun(G4double energy, G4double theta) : fGun(1) {
    fGun.SetParticleDefinition(G4Electron::Definition());
    fGun.SetParticleEnergy(energy);
    const G4ThreeVector direction(0, std::cos(theta), std::sin(theta));
    fGun.SetParticleMomentumDirection(direction);
    fGun.SetParticlePosition(-1 * mm * direction / direction.z());
  }
  void GeneratePrimaries(G4Event* event) override { fGun.GeneratePrimaryVertex(event); }

 private:
  G4ParticleGun fGun;
};

class Actions : public G4VUserActionInitialization {
 public:
  Actions(G4double energy, G4double theta) : fEnergy(energy), fTheta(theta) {}
  void Build() const override { SetUserAction(new Gun(fEnergy, fTheta)); }

 private:
  G4double fEnergy, fTheta;
};

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: fast_calorimeter MODEL ENERGY_GEV THETA_DEGREES ELECTRONS\n";
    return 2;
  }
  setenv("ORT_DISABLE_TELEMETRY", "1", 0);  // else ONNX Runtime 1.29 and later report to Microsoft
  const G4int electrons = std::stoi(argv[4]);
  std::unique_ptr<G4RunManager> manager(G4RunManagerFactory::CreateRunManager(G4RunManagerType::SerialOnly));
  auto* physics = new FTFP_BERT;
  auto* fast = new G4FastSimulationPhysics;
  fast->ActivateFastSimulation("e-");
  physics->RegisterPhysics(fast);
  manager->SetUserInitialization(new Detector(argv[1]));
  manager->SetUserInitialization(physics);
  manager->SetUserInitialization(new Actions(std::stod(argv[2]) * GeV, std::stod(argv[3]) * deg));
  manager->Initialize();
  manager->BeamOn(electrons);
  std::cout << "energy in the silicon: " << gSilicon / electrons / GeV << " GeV per electron\n";
  return 0;
}
