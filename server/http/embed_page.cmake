#  The page with Debian's dygraphs in it, as one file; http_server.c has it as one text.
function (embed_page target)
    find_file (DYGRAPHS_JS dygraph.min.js PATHS /usr/share/javascript/dygraphs NO_DEFAULT_PATH REQUIRED)
    find_file (DYGRAPHS_CSS dygraph.min.css PATHS /usr/share/javascript/dygraphs NO_DEFAULT_PATH REQUIRED)
    set (source ${CMAKE_CURRENT_SOURCE_DIR}/page.html)
    set_property (DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source} ${DYGRAPHS_JS} ${DYGRAPHS_CSS})
    file (READ ${source} page)
    file (READ ${DYGRAPHS_JS} script)
    file (READ ${DYGRAPHS_CSS} style)
    #  Where its map would be, for which a browser would ask.
    string (REGEX REPLACE "\n//# sourceMappingURL=[^\n]*" "" script "${script}")
    string (REGEX REPLACE "\n/[*]# sourceMappingURL=[^\n]*" "" style "${style}")
    string (REPLACE "@DYGRAPHS_JS@" "${script}" page "${page}")
    string (REPLACE "@DYGRAPHS_CSS@" "${style}" page "${page}")
    file (WRITE ${CMAKE_CURRENT_BINARY_DIR}/page.new "${page}")
    configure_file (${CMAKE_CURRENT_BINARY_DIR}/page.new ${CMAKE_CURRENT_BINARY_DIR}/page.html COPYONLY)
    set_source_files_properties (http_server.c PROPERTIES OBJECT_DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/page.html
        COMPILE_DEFINITIONS PAGE_FILE="${CMAKE_CURRENT_BINARY_DIR}/page.html")
endfunction ()
