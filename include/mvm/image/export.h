#pragma once
// An image out of the store again: as a tar archive of its files, or as an OCI image of one layer.
// The same image gives the same bytes.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "mvm/image/import.h"
#include "mvm/store/images.h"

namespace mvm::image {

enum class Packing { None, Gzip, Zstd };

struct ExportOptions {
  Packing packing = Packing::None;
  std::string reference;  // OCI: the name it has there; may be empty
};

// All of these throw Error{Invalid} for an image that is damaged, and what `progress` throws.

// Its files, owners, modes, times and attributes, to a descriptor that need not be a file.
void export_tar(const store::Image& image, int output, const ExportOptions& options,
                const Progress& progress = {});

// An OCI layout (image-spec 1.1) in `directory`, which exists and is empty. Throws
// Error{Unsupported} for an image with a file called as whiteouts are, which a layer cannot hold.
void export_oci_layout(const store::Image& image, const std::string& directory,
                       const ExportOptions& options, const Progress& progress = {});

// The same as a tar archive, which `docker load` and `podman load` take. `scratch` is an empty file
// for the layer, open for reading and writing: its size has to be known before it is written.
void export_oci_archive(const store::Image& image, int output, int scratch,
                        const ExportOptions& options, const Progress& progress = {});

}
