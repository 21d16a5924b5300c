"""The vocabulary of the caption grammar: nouns by kind, adjectives, verbs by what follows them, prepositions.

Words joined by "_" are one entry.
"""

PEOPLE = """
    man woman boy girl child person lady guy kid toddler baby player skateboarder surfer skier snowboarder
    rider cyclist biker worker chef cook waiter police_officer policeman fireman soldier musician guitarist
    singer dancer teenager student teacher swimmer runner climber hiker batter catcher pitcher umpire goalie
    referee tourist bride groom mother father farmer fisherman juggler performer clown vendor driver
    passenger pedestrian gentleman female male couple friend baseball_player soccer_player tennis_player
    football_player basketball_player skate_boarder snow_boarder hockey_player motorcyclist photographer
    artist gymnast wrestler cheerleader cowboy adult infant crowd_member jogger rock_climber bull_rider
""".split()
PEOPLE_PLURAL = """
    people men women children kids boys girls players adults friends tourists workers spectators youths
    soldiers skiers surfers officers females males toddlers teens bikers musicians swimmers
""".split()
ANIMALS = """
    dog cat horse cow sheep bird elephant giraffe zebra bear puppy kitten duck goose pigeon seagull lion
    tiger monkey goat pig polar_bear donkey rabbit squirrel parrot owl lamb bull deer camel bulldog terrier
    poodle greyhound black_lab golden_retriever border_collie swan fish turtle ox calf pony panda
""".split()
VEHICLES = """
    car bus train truck motorcycle bicycle bike boat ship airplane plane van taxi scooter tractor helicopter
    jet fire_truck school_bus double_decker_bus city_bus passenger_train pickup_truck dirt_bike race_car
    sail_boat canoe kayak jeep trolley tram steam_engine cart wagon subway_train police_car raft sled
""".split()
THINGS = """
    table chair bench couch bed desk lamp laptop computer keyboard mouse monitor television phone cell_phone
    book bag backpack suitcase umbrella bottle cup mug glass bowl plate fork knife spoon vase clock mirror
    sink toilet bathtub refrigerator stove oven microwave blender toaster box basket bucket towel blanket
    pillow teddy_bear toy kite frisbee ball baseball football soccer_ball tennis_ball racket tennis_racket
    baseball_bat bat surfboard skateboard snowboard sign street_sign stop_sign traffic_light fire_hydrant
    parking_meter pole fence gate wall door window curtain shelf cabinet counter statue fountain flag
    balloon camera microphone guitar drum violin trumpet rope stick branch rock log hose ladder shovel broom
    newspaper magazine paper picture painting poster candle flower plant pot tray basketball remote_control
    hair_dryer toothbrush scarf wii_remote sculpture tent trash_can swing slide rail ramp hoop net goal cone
    wheel tire leash bone tennis_court trick_bike wine_glass coffee_cup dining_table kitchen_counter
    window_sill picnic_table park_bench book_shelf bus_stop video_game card lego stroller wheelchair crib
    train_track light umbrella_stand structure machine instrument object
""".split()
CLOTHES = """
    shirt hat jacket coat dress suit tie helmet t-shirt sweater hoodie skirt vest uniform cap scarf costume
    mask wetsuit swimsuit bikini backpack bathing_suit baseball_cap life_jacket cowboy_hat tank_top hard_hat
    jersey robe wig headband sweatshirt bandana collar harness apron hijab ski_suit wedding_dress
    soccer_uniform necktie
""".split()
CLOTHES_PLURAL = """
    jeans shorts pants sunglasses glasses gloves boots shoes goggles skis sandals socks sneakers hats
    costumes uniforms shirts helmets jackets clothes headphones suits dresses flip-flops
""".split()
BODY = """
    head hand arm mouth face back leg foot hair shoulder lap neck tail tongue nose finger trunk ear eye
""".split()
FOOD = """
    pizza sandwich cake donut apple banana orange hot_dog hamburger salad slice_of_pizza carrot sausage pie
    cookie burger taco muffin bagel pastry ice_cream_cone cupcake cheese_burger pancake steak meal lunch
    drink beer
""".split()
FOOD_MASS = """
    food water wine bread cheese rice broccoli meat soup fruit ice_cream chicken coffee milk juice pasta
    lettuce chocolate sauce ketchup popcorn cotton_candy
""".split()
MASS = """
    grass snow sand water dirt mud ice luggage equipment furniture graffiti wood fabric smoke wire metal
    gravel foliage brush hay concrete clothing food jewelry fruit
""".split()
PLACES = """
    beach park field street road room kitchen bathroom bedroom building house garden forest river lake ocean
    pool mountain hill slope city parking_lot sidewalk train_station airport restaurant store market stadium
    court track living_room skate_park swimming_pool soccer_field baseball_field tennis_court
    basketball_court playground yard bridge path trail desert zoo farm barn pasture dirt_road intersection
    tunnel platform runway stage gym classroom office hallway dock pier harbor shore pond creek wooded_area
    grassy_field snowy_hill rocky_cliff crowd alley rice_field ski_slope city_street town_square
    football_field race_track ski_lift sandy_beach crosswalk mall cafe bar church school library hospital
    cage pen enclosure puddle wave rink arena ring dance_floor curb
""".split()
COLOURS = """
    red blue green yellow white black brown pink purple orange gray grey silver tan beige gold maroon
""".split()
PERSON_ADJECTIVES = """
    young old little small older elderly tall bald happy blond blonde middle-aged asian shirtless barefoot
    smiling pregnant female male african-american heavyset bearded young_asian dark-haired red-headed
    blond-haired long-haired tattooed topless excited teenage overweight well-dressed
    skinny chubby slim curly-haired freckled muscular sleepy cute serious attractive athletic blonde 
    red-haired
""".split()
THING_ADJECTIVES = """
    small large big little old new wooden empty colorful long tall short bright open
    white_and_black black_and_white red_and_white blue_and_yellow brown_and_white green_and_white huge tiny
    wet dirty clean broken round square shiny fancy antique vintage modern leather
    snow-covered tree-lined multi-colored stuffed parked fresh half-eaten striped plaid floral
    checkered decorated inflatable narrow busy crowded paved
    fuzzy icy cloudy leafy bouncy rusty messy tidy sleek ornate elegant rustic retro brightly_colored
    neatly_made freshly_baked well_lit snow_covered foil_covered graffiti_covered sponsor_covered fur_lined
    horse_drawn heart_shaped cream_filled partially_eaten freshly_painted sugar_coated
""".split()
ANIMAL_ADJECTIVES = """
    small large big little brown white black spotted fluffy wet furry tan baby young adult shaggy
    black_and_white brown_and_white brown_and_black wild stray muzzled long-haired shorthaired gray yellow
    fuzzy chubby sleepy scruffy curly skinny playful cute
""".split()
PLACE_ADJECTIVES = """
    grassy snowy sandy rocky busy crowded empty large small open green dirt muddy wet residential cluttered
    clean modern steep lush dry narrow paved dusty outdoor indoor shallow urban rural
    icy cloudy leafy tidy messy cozy foggy hilly sunny barren swampy rugged tree_lined snow_covered
    brightly_lit dimly_lit ivy_covered
""".split()

# intransitive verb -> prepositions that usually follow ("-" stands for none)
INTRANSITIVE = {
    "walk": "along down through across on in past toward with up into by around beside near over -",
    "run": "along down through across on in past toward with after around -",
    "jump": "over into off on in through -",
    "stand": "on in by near behind beside next_to in_front_of at under around outside with -",
    "sit": "on in at by near behind beside next_to in_front_of under around with outside -",
    "lie": "on in under next_to near beside -",
    "lay": "on in under next_to -",
    "sleep": "on in under next_to -",
    "rest": "on in against under -",
    "play": "in on with at near outside -",
    "ride": "on down through along in past -",
    "swim": "in through under -",
    "dance": "on in with around -",
    "fly": "over through above in past -",
    "lean": "against on over out_of -",
    "kneel": "on in by beside down",
    "crouch": "on in behind next_to down",
    "climb": "up on over onto down",
    "skate": "down on through past -",
    "ski": "down on through -",
    "surf": "on in -",
    "skateboard": "down on over -",
    "snowboard": "down over on -",
    "travel": "down along on through past",
    "drive": "down on along through past",
    "graze": "in on near by -",
    "wade": "in through into",
    "splash": "in through around",
    "look": "at out_of over into down_at through up_at toward in",
    "stare": "at out_of into",
    "point": "at to toward",
    "smile": "at for -",
    "laugh": "at with -",
    "wait": "for at on in -",
    "pose": "for with in on -",
    "work": "on in at with -",
    "talk": "to on with -",
    "hang": "from on over in off",
    "float": "in on through down -",
    "slide": "down on into -",
    "fall": "off on into -",
    "dive": "into for off -",
    "dig": "in through -",
    "bite": "into on",
    "leap": "over into through off from across -",
    "reach": "for into over",
    "bend": "over down",
    "hike": "up through on along",
    "crawl": "through on under",
    "race": "around down on through along -",
    "gather": "around in at near on",
    "march": "down in through",
    "perform": "on in for at -",
    "sing": "into on in -",
    "chew": "on",
    "protest": "outside in against -",
    "paddle": "down through in",
    "grind": "on down",
    "stop": "at in on",
    "drink": "from out_of",
    "eat": "from at in off_of -",
    "peer": "through over into",
    "roll": "on in down",
    "step": "on over into off",
    "shop": "at in for",
    "fish": "in on from off",
    "cross-country_ski": "through across",
    "balance": "on",
    "wrestle": "in on with -",
    "bark": "at -",
    "relax": "on in at",
    "stroll": "down along through",
    "skip": "along down",
    "row": "down in",
    "pass": "through by under",
    "glance": "at over",
    "bathe": "in",
    "cook": "in on over",
    "picnic": "in on",
    "camp": "in by",
    "sled": "down on",
    "wave": "at to -",
    "compete": "in at for",
    "perch": "on",
    "land": "on in at",
    "trot": "through across along",
    "gallop": "through across",
    "prance": "through",
    "sprint": "down across",
    "squat": "on down",
}
# transitive verb -> kinds of objects
TRANSITIVE = {
    "hold": "thing food animal thing",
    "carry": "thing child food",
    "ride": "vehicle animal board wave",
    "wear": "clothes",
    "eat": "food",
    "drink": "food",
    "throw": "ball thing",
    "catch": "ball thing",
    "kick": "ball",
    "hit": "ball",
    "swing": "bat",
    "play": "instrument game",
    "watch": "person thing animal ball",
    "read": "book",
    "cut": "food thing",
    "push": "vehicle thing",
    "pull": "vehicle thing",
    "chase": "animal ball",
    "pet": "animal",
    "feed": "animal",
    "walk": "animal",
    "paint": "thing",
    "fly": "kite",
    "cross": "place",
    "cook": "food",
    "prepare": "food",
    "brush": "body thing",
    "hug": "person animal",
    "kiss": "person animal",
    "climb": "place thing",
    "fix": "vehicle thing",
    "drive": "vehicle",
    "clean": "thing place",
    "wash": "vehicle thing",
    "perform": "trick",
    "do": "trick",
    "cover": "body thing",
    "dig": "hole",
    "surround": "thing place",
    "fill": "thing",
    "approach": "thing person ball",
    "face": "thing person place",
    "jump": "thing hole",
    "touch": "thing body",
    "grab": "thing ball",
    "herd": "animals",
    "photograph": "person thing",
    "serve": "food ball",
    "scale": "place wall",
    "lick": "body thing",
    "chew": "thing",
    "smell": "thing food",
    "smoke": "cigarette",
    "use": "thing",
    "sell": "food thing",
    "leap": "thing",
    "pass": "thing place",
    "bite": "thing food",
    "examine": "thing",
    "inspect": "thing",
    "make": "food face thing",
    "take": "picture thing",
    "blow": "bubbles thing",
    "raise": "body thing",
    "open": "thing",
    "shake": "hand thing",
    "light": "candle",
    "sniff": "thing animal",
    "tackle": "person",
    "lead": "animal person",
    "enjoy": "food thing",
    "share": "food thing",
    "follow": "person animal",
    "return": "ball",
    "block": "ball thing",
    "dribble": "ball",
    "bounce": "ball",
    "guard": "thing",
    "decorate": "thing",
    "build": "thing",
    "repair": "vehicle",
    "load": "vehicle",
    "board": "vehicle",
    "display": "thing food",
    "show": "thing",
    "cut_up": "food",
    "retrieve": "ball thing",
    "juggle": "bubbles",
    "attempt": "trick",
    "fetch": "ball",
}
PARTICLE = """
    sit:down stand:up lie:down bend:over bend:down lean:over lean:back look:up look:down look:on look:out
    line:up dress:up hang:out walk:up reach:out climb:up fall:down jump:up speed:by go:by warm:up get:up
    take:off fly:by stretch:out roll:over drive:by walk:away run:away pass:by walk:around peek:out stick:out
    sit:up
""".split()
PARTICLE_OBJECT = """
    hold:up pick:up put:on set:up take:off blow:out hold:out put:down set:down clean:up cut:up show:off
    try:on knock:over lift:up tip:over throw:away turn:on put:on take:off pull:up hand:out drink:down
    stretch:out stick:out
""".split()
# participle after "be" or after a noun -> prepositions
PARTICIPLES = {
    "park": "on in next_to along near in_front_of by outside",
    "cover": "in with by",
    "fill": "with",
    "surround": "by",
    "make": "of from out_of",
    "dress": "in as for",
    "locate": "in on next_to near",
    "stack": "on in on_top_of",
    "seat": "on at in around",
    "tie": "to",
    "attach": "to",
    "line": "with",
    "decorate": "with in for",
    "stand_": "",
    "gather": "around in at",
    "place": "on in next_to on_top_of",
    "set": "on with",
    "load": "with onto",
    "pull": "by",
    "connect": "to",
    "mount": "on",
    "display": "in on",
    "cut": "into in",
    "top": "with",
    "see": "in from through",
    "prepare": "for",
    "leave": "in on",
    "hang_": "",
    "pile": "on in",
    "crowd": "with",
    "cook": "in on",
    "chase": "by",
    "position": "in near",
    "build": "into on",
    "carry": "by",
    "wrap": "in around",
    "paint": "on",
    "throw": "by",
    "ride": "by",
    "arrange": "on in",
    "plug": "into",
    "equip": "with",
    "stuff": "with",
    "light": "by",
    "reflect": "in on",
    "sit_": "",
    "perch": "on",
    "lead": "by",
    "hold": "by",
    "watch": "by",
    "strap": "to",
    "name": "",
    "show": "in",
    "serve": "on with",
    "drag": "by",
}
# verbs that need no list of their own: any common preposition, any thing as object
MOVING = """
    hover swoop windsurf spin twirl tumble crash drift nap doze yawn cheer clap shout yell scream cry chat
    converse study type write sail cruise coast glide soar circle zoom rush dash charge turn rappel juggle
    tussle wink frolic wander peddle pedal bow pray spar lounge recline snuggle cuddle exercise practice
    train rollerblade waterski parasail tube bounce stumble trek sprawl huddle mingle converge descend
    ascend emerge appear struggle
""".split()
HANDLING = """
    lift mock admire sip toss flip twist slice pour stir scoop rub scratch nuzzle draw sketch sew mow rake
    shovel sweep mop water plant pick collect deliver unload haul tow drag hoist lower drop spill tip steer
    dock knock strum assemble polish shear saddle gather stack spray squeeze tickle poke point tug greet
    entertain interview record film toast peel bake grill roast fry drain drape adjust button zip tie untie
    launch fire aim measure weigh kick trim style comb shave cradle
""".split()
OBJECTS = {
    "board": "surfboard skateboard snowboard sled raft boogie_board paddle_board",
    "ball": "ball frisbee baseball soccer_ball tennis_ball football basketball volleyball stick toy",
    "bat": "bat racket tennis_racket baseball_bat golf_club",
    "instrument": "guitar drum piano violin trumpet saxophone accordion",
    "game": (
        "@soccer @tennis @baseball @frisbee @golf @basketball @football @volleyball game video_game @hockey "
        "@cricket @fetch @leapfrog @tag @catch @chess @rugby @polo @badminton @lacrosse @hopscotch ^cards ^darts"
    ),
    "book": "book newspaper magazine menu sign map",
    "kite": "kite flag airplane",
    "trick": "trick flip jump handstand stunt backflip wheelie grind cartwheel",
    "hole": "hole ditch puddle hurdle fence ramp stream",
    "cigarette": "cigarette cigar pipe",
    "picture": "picture photo photograph selfie nap bite bath break shot swing",
    "bubbles": "^bubbles ^balls ^pins ^torches",
    "candle": "candle fire cigarette",
    "face": "face snowman sandcastle funny_face",
    "wall": "wall cliff rock mountain",
    "wave": "wave wave big_wave",
    "animals": "^sheep ^cows ^cattle ^horses ^goats",
    "child": "baby child toddler",
}
ADVERBS = """
    together outside outdoors indoors nearby away alone slowly happily closely outside around there
    upside_down side_by_side hand_in_hand barefoot high low quickly fast overhead ahead inside upright
    forward backwards
    downtown uphill downhill nearby upstairs outdoors there home aboard forward midair
""".split()
GROUPS = """
    group couple bunch pair herd flock crowd number team row line pack variety set pile stack lot few_people
    collection family bunch large_group small_group couple
""".split()
PORTIONS = """
    slice piece bowl plate glass cup bottle bunch tray basket bucket box can pile stack jar bag field body
    pan
""".split()
PICTURES = """
    picture photo view close_up close-up shot image photograph painting black_and_white_photo statue display
    closeup drawing side_view aerial_view large_photo portrait
""".split()
LOCATION_NOUNS = """
    in:middle at:top on:side on:back at:end in:center on:edge at:edge in:corner on:top at:bottom to:left
    to:right on:front in:back at:side on:end at:foot in:background near:edge by:side along:side
""".split()
SETTINGS = """
    in_the_background in_the_air on_the_ground at_night in_the_snow in_the_distance during_the_day
    in_the_rain on_a_sunny_day in_the_water on_the_grass at_sunset in_the_dark in_the_sun in_the_wild
    in_traffic in_formation at_home in_bed in_unison on_display in_uniform in_mid_air in_public at_work
    on_fire in_flight on_horseback at_dusk
""".split()
# adjectives that may follow their noun: "a cat asleep on a bed"
# materials, one or two of them: "a rope and wood bridge"
MATERIALS = """
    stone brick leather paper metal plastic concrete wood glass rope steel straw rubber cardboard marble tile
    iron bamboo denim
""".split()
# a noun before the verb: "is mountain biking"
NOUN_VERBS = """
    mountain:bike rock:climb ice:skate hang:glide roller:blade scuba:dive sumo:wrestle kite:surf wind:surf para:sail
    para:glide ice:climb sky:dive body:surf jet:ski sight:see snow:ski water:ski bungee:jump arm:wrestle belly:dance
    base:jump dirt:bike break:dance
""".split()
# adverb that may follow a noun: "a cat outside looking at a bird"
NOUN_ADVERBS = "outside inside nearby outdoors indoors upstairs downtown alone".split()
POSTPOSED = """
    asleep full ready visible alone high deep alive free busy
""".split()
PREDICATES = """
    happy red blue white empty full ready wet open visible sad tired closed dirty old colorful busy alone
    asleep upside_down black yellow green beautiful excited muddy surprised ripe young cold
""".split()
