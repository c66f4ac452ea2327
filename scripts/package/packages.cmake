# Debian packages: `cpack --config build/release/CPackConfig.cmake`. The planner is one without models and LibTorch;
# what runs models, what LibTorch runs and the kernels for programs of others are each one more, where they are built.
# Dependencies are what the programs link, as dpkg-shlibdeps finds it.

# Packages have what was built, for which nobody has to build the tests: `all` has them.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_CONTACT "The authors of Tessera")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)

set(CPACK_COMPONENTS_ALL planner kernels)
if(TESSERA_RUNS_MODELS)
  list(APPEND CPACK_COMPONENTS_ALL models)
endif()
if(TESSERA_TORCH_VERSION)
  list(APPEND CPACK_COMPONENTS_ALL torch)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(same_version "tessera (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PLANNER_PACKAGE_NAME tessera)
set(CPACK_COMPONENT_PLANNER_DESCRIPTION "The planner and simulator: the program, its Lua library, devices, models,\nprofiles and experiments.")
set(CPACK_DEBIAN_MODELS_PACKAGE_NAME tessera-models)
set(CPACK_DEBIAN_MODELS_PACKAGE_DEPENDS "${same_version}")
set(CPACK_COMPONENT_MODELS_DESCRIPTION "Modules of the program that run models, plans and a server.")
set(CPACK_DEBIAN_TORCH_PACKAGE_NAME tessera-torch)
set(CPACK_DEBIAN_TORCH_PACKAGE_DEPENDS "${same_version}, tessera-models (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_TORCH_DESCRIPTION "The module of the program that runs models by LibTorch.")
set(CPACK_DEBIAN_KERNELS_PACKAGE_NAME libtessera-kernels-dev)
set(CPACK_DEBIAN_KERNELS_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_KERNELS_DESCRIPTION "Quantisation and low-bit matrix kernels: headers, a static library and its\nCMake package.")
include(CPack)
